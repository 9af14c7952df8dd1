"""The error that rejects a request."""

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.consumer.errors import GroupRequestError


def test_an_error_has_its_code_and_the_message_for_the_client() -> None:
    error = GroupRequestError(Code.UNKNOWN_MEMBER_ID, "Member m is not a member of group g.")
    assert (error.code, error.message) == (25, "Member m is not a member of group g.")
    assert str(error) == error.message
