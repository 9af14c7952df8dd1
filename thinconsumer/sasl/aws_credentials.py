"""AWS credentials for AWS_MSK_IAM: loaded by botocore, from its default chain, a profile, or an assumed role.

Loading may read files and send requests to AWS, and blocks meanwhile: the shell calls it between two steps, as it calls
user code. Each load makes a new session, so that keys that were rotated in a file are found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..config import SecurityOptions
from ..errors import KafkaError
from .mechanism import NotPickled, import_extra

#: Seconds after which credentials without an expiry are loaded again: they may have been rotated in their file.
RELOAD_AFTER = 900.0
DEFAULT_SESSION_NAME = "thinconsumer"


@dataclass(frozen=True, slots=True, repr=False)
class LoadedCredentials(NotPickled):
    """Credentials to sign with, and the region that botocore's settings name."""

    access_key: str
    secret_key: str
    token: str | None = None
    expires_at: float | None = None  #: Seconds since the epoch; None if unknown.
    region: str = ""

    def __repr__(self) -> str:
        return f"<LoadedCredentials {self.access_key}, expires_at={self.expires_at}>"


def session_maker() -> Callable[..., Any]:
    """Return botocore's class of sessions.

    Raises:
        KafkaConfigurationError: botocore is not installed.
    """
    maker: Callable[..., Any] = import_extra("botocore.session", "sasl_mechanism='AWS_MSK_IAM'", "msk-iam").Session
    return maker


def load_credentials(options: SecurityOptions, new_session: Callable[..., Any]) -> LoadedCredentials:
    """Load the credentials that the options choose. Blocks.

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
    # Botocore has no public name for the expiry. Read after the call before, which may have fetched new credentials.
    expiry = getattr(credentials, "_expiry_time", None)
    return LoadedCredentials(frozen.access_key, frozen.secret_key, frozen.token or None, _timestamp(expiry), region)


def _assume_role(options: SecurityOptions, session: Any, region: str) -> LoadedCredentials:
    arguments = {
        "RoleArn": options.sasl_aws_msk_iam_role_arn,
        "RoleSessionName": options.sasl_aws_msk_iam_role_session_name or DEFAULT_SESSION_NAME,
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
