"""The APIs of users' SCRAM credentials (KIP-554).

AlterUserScramCredentials (key 51) sets and deletes them, DescribeUserScramCredentials (key 50) returns mechanisms and
iterations. Mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512. The client salts the password, so that the broker never
gets it.
"""

from thinconsumer.wire.message import Message
from thinconsumer.wire.schema import Struct, array, binary, int8, int16, int32, string


class AlterUserScramCredentialsResult(Struct):
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class AlterUserScramCredentialsResponse(Message, key=51, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32("0+")
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult, "0+")


class ScramCredentialDeletion(Struct):
    name: str = string("0+")
    mechanism: int = int8("0+")


class ScramCredentialUpsertion(Struct):
    """A credential to set; it replaces the user's credential of the same mechanism."""

    name: str = string("0+")
    mechanism: int = int8("0+")
    iterations: int = int32("0+")
    salt: bytes = binary("0+")
    salted_password: bytes = binary("0+", is_secret=True)


class AlterUserScramCredentialsRequest(Message, response=AlterUserScramCredentialsResponse):
    """Set and delete SCRAM credentials; a user may occur only once in the request."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion, "0+")
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion, "0+")


class CredentialInfo(Struct):
    """One credential of a user; mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    mechanism: int = int8("0+")
    iterations: int = int32("0+")


class DescribeUserScramCredentialsResult(Struct):
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo, "0+")


class DescribeUserScramCredentialsResponse(Message, key=50, versions=(0, 0), flexible=0):
    """The credentials of each user asked for, or an error that concerns all of them."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult, "0+")


class UserName(Struct):
    name: str = string("0+")


class DescribeUserScramCredentialsRequest(Message, response=DescribeUserScramCredentialsResponse):
    """Ask for the SCRAM credentials of these users; None or an empty list means all users."""

    users: list[UserName] | None = array(UserName, "0+", nullable="0+")
