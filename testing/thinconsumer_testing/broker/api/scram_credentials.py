"""AlterUserScramCredentials and DescribeUserScramCredentials version 0: the users' SCRAM credentials (KIP-554).

Follows ``ScramControlManager`` for changes, which the controller makes, and ``ScramImage`` for descriptions, which each
broker makes from its own metadata.
"""

from __future__ import annotations

from collections import Counter

from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import BY_CODE, Code

from ..acl.bindings import AclOperation
from ..acl.checks import needs_cluster
from ..call import Api, ApiCall
from ..forwarding import to_controller
from ..login.scram_credentials import BY_NAME, ScramCredentials
from ..wire.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def _alter(call: ApiCall) -> Message:
    request: AlterUserScramCredentialsRequest = call.request
    results = call.node.cluster.controller.scram.alter(request.deletions, request.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user,
                error_code=0 if error is None else int(error.code),
                error_message=None if error is None else error.message,
            )
            for user, error in results.items()
        ]
    )


def _refuse_alter(
    request: AlterUserScramCredentialsRequest, version: int, code: int
) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys([one.name for one in request.deletions] + [one.name for one in request.upsertions])
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=code, error_message=BY_CODE[code].text)
            for user in users
        ]
    )


def _describe(call: ApiCall) -> Message:
    request: DescribeUserScramCredentialsRequest = call.request
    credentials = call.node.image.scram_credentials
    if request.users:
        counts = Counter(user.name for user in request.users)
    else:
        counts = Counter({user for _, user in credentials})
    return DescribeUserScramCredentialsResponse(
        error_message="", results=[_described(credentials, user, count) for user, count in counts.items()]
    )


def _described(credentials: ScramCredentials, user: str, count: int) -> DescribeUserScramCredentialsResult:
    found = [
        CredentialInfo(mechanism=mechanism.number, iterations=credentials[name, user].iterations)
        for name, mechanism in BY_NAME.items()
        if (name, user) in credentials
    ]
    code, text = Code.NONE, None
    if count > 1:
        code = Code.DUPLICATE_RESOURCE
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    elif not found:
        code = Code.RESOURCE_NOT_FOUND
        text = f"Attempt to describe a user credential that does not exist: {user}"
    return DescribeUserScramCredentialsResult(
        user=user, error_code=int(code), error_message=text, credential_infos=[] if code else found
    )


def _refuse_describe(
    request: DescribeUserScramCredentialsRequest, version: int, code: int
) -> DescribeUserScramCredentialsResponse:
    # As in Kafka the entries have no user names, and no entry has a message.
    refused = [DescribeUserScramCredentialsResult(error_code=code, error_message=None) for _ in request.users or ()]
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=None, results=refused)


_checked_alter = needs_cluster(AclOperation.ALTER, _alter, _refuse_alter)
_checked_describe = needs_cluster(AclOperation.DESCRIBE, _describe, _refuse_describe)

APIS = (
    Api(AlterUserScramCredentialsRequest, 0, 0, to_controller(_checked_alter, _refuse_alter), _refuse_alter),
    Api(DescribeUserScramCredentialsRequest, 0, 0, _checked_describe, _refuse_describe),
)
