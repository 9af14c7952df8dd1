"""A schema registry made for these tests: the few requests of Confluent's that serializers and deserializers send.

It runs in a thread of the test, on 127.0.0.1, and fails as it is told.
"""

import json
import threading
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Registry:
    """Schemas by id and by subject."""

    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}"
        self.schemas = []  # the schema with the id n + 1
        self.subjects = {}  # by subject: the ids of its versions
        self.status = 0  # to answer each request with this status, if it is not 0
        self.delay = 0.0  # before each answer, in seconds
        self.requests = Counter()

    def register(self, subject, schema):
        schema = {key: value for key, value in schema.items() if value}
        if schema not in self.schemas:
            self.schemas.append(schema)
        number = self.schemas.index(schema) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return self.version(subject, versions.index(number) + 1)

    def version(self, subject, version):
        number = self.subjects[subject][version - 1]
        guid = str(uuid.UUID(int=number))
        return {"subject": subject, "version": version, "id": number, "guid": guid, **self.schemas[number - 1]}

    def answer(self, method, path, body):
        """Return the status and the body of an answer."""
        match method, *path.split("/")[1:]:
            case "POST", "subjects", subject, *_:
                return 200, self.register(subject, body)
            case "GET", "subjects", subject, "versions", version if subject in self.subjects:
                return 200, self.version(subject, int(version))
            case "GET", "schemas", "ids", number if int(number) <= len(self.schemas):
                return 200, self.schemas[int(number) - 1]
            case "GET", "schemas", "guids", guid:
                return 200, self.schemas[uuid.UUID(guid).int - 1]
        return 404, {"error_code": 40403, "message": "Schema not found"}


@contextmanager
def running():
    """Run a registry."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def reply(self):
            path = self.path.partition("?")[0]
            size = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(size)) if size else {}
            registry.requests[f"{self.command} {path}"] += 1
            status, found = registry.status, {"error_code": registry.status, "message": "as told"}
            if not status:
                status, found = registry.answer(self.command, path, body)
            time.sleep(registry.delay)
            data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = reply

        def log_message(self, *words):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *about):
            pass  # a client that has not waited

    with Server(("127.0.0.1", 0), Handler) as server:
        registry = Registry(server.server_port)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
