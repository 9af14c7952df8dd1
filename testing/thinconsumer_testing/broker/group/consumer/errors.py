"""The error with which a coordinator rejects a request of a consumer group's member."""

from thinconsumer.wire.error_codes import Code


class GroupRequestError(Exception):
    """A rejected request: the error code, and the message that the client gets with it."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = int(code)
        self.message = message
