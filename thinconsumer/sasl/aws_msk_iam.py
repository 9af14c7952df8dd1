"""AWS_MSK_IAM: logins to Amazon MSK by a presigned request, as ``aws-msk-iam-auth`` makes it.

The client signs the request ``GET https://HOST/?Action=kafka-cluster:Connect`` (Signature Version 4) without sending
it: the signature and its parameters, as JSON, are the login's only message.

Botocore (the extra ``msk-iam``) computes the signature, and loads the credentials: from its default chain, a profile,
or an assumed role. Loading blocks while it reads files or sends requests to AWS, so the shell loads credentials between
two steps, where it calls user code, too. Each load makes a new session of botocore, which finds keys that were rotated
in a file.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._version import __version__
from ..config import SecurityOptions
from ..errors import IllegalArgumentError, KafkaConfigurationError, KafkaError, KafkaProtocolError
from .mechanism import Mechanism, NotPickled, authentication_failed, import_extra, json_object

#: Seconds after which credentials without an expiry are loaded again: they may have been rotated in their file.
RELOAD_AFTER = 900.0


@dataclass(frozen=True, slots=True, repr=False)
class LoadedCredentials(NotPickled):
    access_key: str
    secret_key: str
    token: str | None = None
    expires_at: float | None = None  #: Seconds since the epoch; None if unknown.
    region: str = ""  #: From the options or botocore's settings; empty if neither has one.

    def __repr__(self) -> str:
        return f"<LoadedCredentials {self.access_key}, expires_at={self.expires_at}>"


def session_maker() -> Callable[..., Any]:
    """Return botocore's class of sessions; raise KafkaConfigurationError if botocore is not installed."""
    maker: Callable[..., Any] = import_extra("botocore.session", "sasl_mechanism='AWS_MSK_IAM'", "msk-iam").Session
    return maker


def load_credentials(options: SecurityOptions, new_session: Callable[..., Any]) -> LoadedCredentials:
    """Load the credentials that the options choose. Blocks. ``new_session`` is the result of :func:`session_maker`.

    Raises:
        KafkaError: there are no credentials.
        Exception: botocore's errors.
    """
    session = new_session(profile=options.sasl_aws_msk_iam_profile)
    region = options.sasl_aws_msk_iam_region or session.get_config_variable("region") or ""
    if options.sasl_aws_msk_iam_role_arn:
        return _assume_role(options, session, region)
    credentials = session.get_credentials()
    if credentials is None:
        raise KafkaError(
            "botocore has found no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, run where a role "
            "is attached, or set sasl_aws_msk_iam_profile"
        )
    frozen = credentials.get_frozen_credentials()
    # Botocore has no public name for the expiry. The expiry is read after the call above, which may have fetched new
    # credentials.
    expiry = getattr(credentials, "_expiry_time", None)
    return LoadedCredentials(frozen.access_key, frozen.secret_key, frozen.token or None, _timestamp(expiry), region)


def _assume_role(options: SecurityOptions, session: Any, region: str) -> LoadedCredentials:
    arguments = {
        "RoleArn": options.sasl_aws_msk_iam_role_arn,
        "RoleSessionName": options.sasl_aws_msk_iam_role_session_name or "thinconsumer",
    }
    if options.sasl_aws_msk_iam_role_external_id:
        arguments["ExternalId"] = options.sasl_aws_msk_iam_role_external_id
    client = session.create_client("sts", region_name=options.sasl_aws_msk_iam_sts_region or region or None)
    given = client.assume_role(**arguments)["Credentials"]
    expires_at = _timestamp(given["Expiration"])
    return LoadedCredentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], expires_at, region)


def _timestamp(moment: Any) -> float | None:
    try:
        return float(moment.timestamp())
    except (AttributeError, ValueError, OverflowError):
        return None


SERVICE = "kafka-cluster"
#: Seconds for which brokers accept the signature. An established connection outlives it.
EXPIRES = 900
#: MSK's host names, such as b-1.name.abc123.c2.kafka.eu-west-1.amazonaws.com.
_MSK_HOST = re.compile(r".+\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
#: Host names that can be signed. Other characters could add a path or parameters to the URL.
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?")
_ANSWER_BYTES_MAX = 16_384


def region_of(host: str) -> str:
    """Return the region in the host name of an MSK broker; an empty text for other hosts."""
    match = _MSK_HOST.fullmatch(host.lower())
    return match[1] if match else ""


def presigned_parameters(host: str, credentials: LoadedCredentials, region: str, wall_time: float) -> dict[str, str]:
    """Return the parameters of the presigned request, in the order of its URL, the signature last."""
    auth, awsrequest = (
        import_extra(f"botocore.{name}", "sasl_mechanism='AWS_MSK_IAM'", "msk-iam") for name in ("auth", "awsrequest")
    )
    if not _HOST.fullmatch(host):
        raise IllegalArgumentError(f"the host name {host!r} cannot be part of an AWS signature")
    if not credentials.access_key or not credentials.secret_key:
        raise IllegalArgumentError("the AWS credentials are empty")
    signer = auth.SigV4QueryAuth(credentials, SERVICE, region, expires=EXPIRES)
    request = awsrequest.AWSRequest(method="GET", url=f"https://{host}/")
    moment = datetime.datetime.fromtimestamp(wall_time, datetime.timezone.utc)
    request.context["timestamp"] = moment.strftime("%Y%m%dT%H%M%SZ")
    request.params = {
        "Action": f"{SERVICE}:Connect",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": signer.scope(request),
        "X-Amz-Date": request.context["timestamp"],
        "X-Amz-Expires": str(EXPIRES),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.token:
        request.params["X-Amz-Security-Token"] = credentials.token
    # The signer's add_auth() would read the clock, and log the session token at DEBUG.
    to_sign = signer.string_to_sign(request, signer.canonical_request(request))
    return {**request.params, "X-Amz-Signature": signer.signature(to_sign, request)}


class AwsMskIam(Mechanism):
    name = "AWS_MSK_IAM"
    options = ("sasl_aws_msk_iam_region", "sasl_aws_msk_iam_profile", "sasl_aws_msk_iam_role_arn")

    def __init__(self, host: str, credentials: LoadedCredentials, region: str, wall_time: float) -> None:
        """``host``: the broker's name as dialled. An empty ``region`` is taken from ``host``, else ``credentials``.

        Raises:
            KafkaConfigurationError: botocore is missing, or the region is unknown.
            IllegalArgumentError: the host name cannot be signed, or the credentials are empty.
        """
        # The broker compares the payload's host with the signed one, which botocore writes in lower case.
        self._host = host.lower()
        self._region = region or region_of(host) or credentials.region
        if not self._region:
            raise KafkaConfigurationError(
                f"sasl_aws_msk_iam_region is needed: the host name {host!r} contains no AWS region"
            )
        self._access_key = credentials.access_key
        self.credentials_expire_at = credentials.expires_at
        parameters = presigned_parameters(self._host, credentials, self._region, wall_time)
        self._secrets = (credentials.secret_key, credentials.token or "", parameters["X-Amz-Signature"])
        fields = {"version": "2020_10_22", "host": self._host, "user-agent": f"thinconsumer/{__version__}"}
        fields.update((name.lower(), value) for name, value in parameters.items())
        self._message = json.dumps(fields, separators=(",", ":")).encode()

    def __repr__(self) -> str:
        return f"<AwsMskIam {self._host} in {self._region} as {self._access_key}>"

    def start(self) -> bytes:
        return self._message

    def respond(self, challenge: bytes) -> None:
        """Return None after the broker's answer, a JSON object with the id of the request."""
        if not challenge:  # the broker has not accepted the signature
            raise authentication_failed("the broker's answer to the AWS_MSK_IAM login is empty")
        if len(challenge) > _ANSWER_BYTES_MAX or json_object(challenge) is None:
            raise KafkaProtocolError("AWS_MSK_IAM: the server's answer is no JSON object")
