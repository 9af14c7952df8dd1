"""DescribeUserScramCredentials (key 50): the SCRAM mechanisms and iterations of users (KIP-554)."""

from __future__ import annotations

from .message import Message
from .schema import Struct, array, int8, int16, int32, string


class CredentialInfo(Struct):
    """One credential of a user; mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    mechanism: int = int8("0+")
    iterations: int = int32("0+")


class DescribeUserScramCredentialsResult(Struct):
    """The credentials of one user, or an error."""

    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo, "0+")


class DescribeUserScramCredentialsResponse(Message):
    """The credentials of each user in the request, or an error that concerns all of them."""

    API_KEY = 50
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult, "0+")


class UserName(Struct):
    """A user to describe."""

    name: str = string("0+")


class DescribeUserScramCredentialsRequest(Message):
    """Ask for the SCRAM credentials of these users; None or an empty list means all users."""

    RESPONSE = DescribeUserScramCredentialsResponse

    users: list[UserName] | None = array(UserName, "0+", nullable="0+")
