"""Kafka's own command line tools, run one after the other in one JVM."""

from __future__ import annotations

import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager

from realkafka import processes

from .java import java_arguments


class KafkaTools:
    """Runs tools on a cluster; the JVM ends when its standard input does."""

    def __init__(self, jvm: subprocess.Popen[str], servers: str) -> None:
        self._jvm, self._servers = jvm, servers

    def __call__(self, tool: str, *arguments: str, given: str = "", fails: bool = False, servers: str = "") -> str:
        """Run a tool, such as ``TopicCommand``, with ``given`` as its standard input; return what it printed."""
        fields = [f"org.apache.kafka.tools.{tool}", given, "--bootstrap-server", servers or self._servers, *arguments]
        assert self._jvm.stdin is not None and self._jvm.stdout is not None
        self._jvm.stdin.write("".join(f",{b64encode(field.encode()).decode()}" for field in fields) + "\n")
        self._jvm.stdin.flush()
        status, *printed = self._jvm.stdout.readline().split(",")
        output, errors = (b64decode(each).decode() for each in printed)
        assert (status != "0") is fails, output + errors
        return output


@contextmanager
def kafka_tools(servers: str) -> Iterator[KafkaTools]:
    """Start a JVM for the tools. Raises ``NoJars`` where Kafka cannot be run."""
    command = processes.java_command(java_arguments("RunTools.java"))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as jvm:
        yield KafkaTools(jvm, servers)
