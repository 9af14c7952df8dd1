"""The logins of one client: the mechanism that its options choose, and the token or credentials to log in with.

A token is fetched before the first broker is dialled, and replaced before it expires. If a replacement fails, the old
token is used until its expiry. OIDC tokens are fetched over the client's own driver. Token providers and botocore
block, so the shell calls them between two steps (:meth:`LoginManager.provider_call`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from ..config import ClientOptions
from ..driver import Address, Command
from ..errors import IllegalArgumentError, KafkaConnectionError, KafkaError, SaslAuthenticationFailedError
from ..failures import OutageLog
from ..network.authenticate import Login
from ..network.request import Answer, Request
from ..support.agenda import Agenda
from ..support.imports import import_uninterrupted
from ..support.server_text import shown
from ..support.timers import Random
from ..wire import Message
from ..wire.error_codes import Code
from .login import SaslLogin
from .mechanism import Mechanism
from .refresh import Refresh
from .tokens import Token, claims_of, provider_call, token_of

if TYPE_CHECKING:
    from .aws_msk_iam import LoadedCredentials
    from .oidc import TokenSource
    from .token_fetch import TokenFetch

log = logging.getLogger(__name__)

#: Seconds after which a due call of a provider counts as put off: a poll makes it at once.
PUT_OFF_S = 1.0


class FailedLogin:
    """A login that cannot begin, because there are no credentials or the package of the mechanism is missing."""

    reauthenticate_after = None

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    def next_request(self, answer: Message | None, now: float) -> Message | None:
        raise self._error


class LoginManager:
    """Makes the logins of connections; a manager of the engine.

    Args:
        wall_time: returns seconds since the epoch. Tokens and AWS credentials expire by this clock.

    Raises:
        KafkaConfigurationError: the token provider or client id cannot be used, or an extra is not installed.
    """

    asker = "logins"

    def __init__(
        self,
        options: ClientOptions,
        random: Random,
        wall_time: Callable[[], float],
        agenda: Agenda,
        commands: deque[Command],
    ) -> None:
        self._options = options
        self._random = random
        self._wall_time = wall_time
        self._agenda = agenda
        #: The names, in error texts, of the credentials that are fetched and replaced, and of their source.
        self._what = self._source = "AWS credentials"
        self._refresh: Refresh | None = None  #: None if there is nothing to fetch.
        self._call: Callable[[], object] | None = None  #: Returns a token or AWS keys, may block; None: not needed.
        self._credentials: Token | LoadedCredentials | None = None
        self._oidc: TokenSource | None = None
        self._fetch: TokenFetch | None = None
        self._commands = commands
        #: The error of a failed attempt, which :attr:`error` returns while there are no valid credentials.
        self._error: KafkaError | None = None
        self._taken: KafkaError | None = None  #: The error that :meth:`take_error` has returned last.
        self._last_failure = ""
        self._outages = OutageLog(log)
        if options.sasl_mechanism == "AWS_MSK_IAM":
            from .aws_msk_iam import RELOAD_AFTER, load_credentials, session_maker

            self._call = partial(load_credentials, options, session_maker())
            self._refresh = Refresh(options, random, agenda.alarm(), RELOAD_AFTER)
        elif options.sasl_mechanism == "OAUTHBEARER":
            self._what, self._source = "OAUTHBEARER token", "sasl_oauth_token_provider"
            self._refresh = Refresh(options, random, agenda.alarm())
            if options.sasl_oauth_token_provider is not None:
                self._call = provider_call(options.sasl_oauth_token_provider)
            else:
                from .oidc import token_source

                self._oidc = token_source(options)
        if self._refresh is not None:
            self._refresh.planned.expire()  # the first attempt is due at once

    def __repr__(self) -> str:
        return f"<LoginManager {self._options.security_protocol} {self._options.sasl_mechanism}>"

    # -- for connections

    def new_login(self, host: str) -> Login:
        """Return the login of a connection to a host. Raises nothing: an exception would end a step in the middle."""
        if not self.may_dial():
            return FailedLogin(KafkaConnectionError(f"cannot log in: {self.waits_for()}", host=host))
        try:
            mechanism = self._mechanism(host)
        except KafkaError as error:
            return FailedLogin(error)
        except Exception as error:  # noqa: BLE001 - of botocore or gssapi; their frames have keys as local variables
            failed = KafkaError(f"cannot begin the {self._options.sasl_mechanism} login: {_describe(error)}")
            failed.__cause__ = error.with_traceback(None)
            return FailedLogin(failed)
        used = self._credentials

        def rejected(now: float) -> None:
            if self._refresh is not None and used == self._credentials:  # not yet replaced
                self._refresh.rejected(now)

        return SaslLogin(mechanism, jitter=self._random.random(), wall_time=self._wall_time, rejected=rejected)

    def may_dial(self) -> bool:
        """Return whether there are credentials to log in with. A client without them must not dial."""
        return self._refresh is None or self._refresh.is_valid(self._wall_time())

    def waits_for(self) -> str:
        """Return why :meth:`may_dial` is false; an empty text if it is true."""
        if self.may_dial():
            return ""
        assert self._refresh is not None
        state = f"the last {self._what} expired" if self._refresh.is_obtained else f"no {self._what} yet"
        reason = self._last_failure or (self._fetch.progress if self._fetch is not None else "")
        return f"{state}: {reason}" if reason else state

    def put_off(self, now: float) -> str:
        """Return when the credentials end, if the call that replaces them is overdue; else an empty text.

        That is the case if the program makes no calls, or only ``keep_alive`` steps the engine.
        """
        refresh = self._refresh
        if self._call is None or refresh is None or refresh.expires_at is None or not self.may_dial():
            return ""
        if now < refresh.planned.at + PUT_OFF_S or refresh.failures:
            return ""
        left = refresh.expires_at - self._wall_time()
        return f"the {self._what} ends in {left:.0f} s; the next call of the client renews it"

    def prepare(self, now: float) -> None:
        """Prepare for steps that call no provider and import nothing, see ``Consumer.keep_alive``.

        A provider is then due, unless its last credentials are fresh. An OIDC token is renewed by the steps.
        """
        if self._oidc is not None:
            import_uninterrupted(f"{__package__}.token_fetch")
        name = self._options.sasl_mechanism or ""
        modules = {"OAUTHBEARER": "oauthbearer", "AWS_MSK_IAM": "aws_msk_iam", "GSSAPI": "gssapi", "PLAIN": "plain"}
        import_uninterrupted(f"{__package__}.{modules.get(name, 'scram')}")
        if self._call is not None and self._refresh is not None:
            self._refresh.renew_early(now)

    @property
    def error(self) -> KafkaError | None:
        """The error to raise because there are no valid credentials; None if there are, or if it is too early to raise.

        A rejection by the token endpoint and exceptions of a token provider are raised at once, an unreachable token
        endpoint after ``sasl_login_retry_backoff_max_ms``. Attempts go on after the error.
        """
        return None if self.may_dial() else self._error

    def take_error(self) -> KafkaError | None:
        """Return :attr:`error`, or None if it was returned before."""
        error = self.error
        if error is self._taken:
            return None
        self._taken = error
        return error

    # -- as a manager of the engine

    def step(self, now: float) -> list[Request]:
        """Begin to fetch a token if one is due, or take the fetched token. There are no requests to brokers."""
        if self.provider_call(now) is not None:
            self._agenda.touch(self.asker)  # this manager stays due until the shell has called the provider
        if self._oidc is None:
            return []
        assert self._refresh is not None
        if self._fetch is None and self._refresh.is_due(now, self._wall_time()):
            from .token_fetch import TokenFetch

            self._fetch = TokenFetch(
                self._oidc, self._options, self._random, self._wall_time, self._agenda, self._commands, now
            )
        if self._fetch is not None:
            self._fetch.step(now)
            if self._fetch.is_over:
                self._settle(self._fetch, now)
        return []

    def handle(self, answer: Answer, now: float) -> bool | None:
        return True  # never called: there are no requests

    def restart(self, now: float) -> None:
        self._fetch = None  # the next step begins a new fetch: the driver has closed the connection

    def resolved(self, host: str, port: int, addresses: Sequence[Address], error: str, now: float) -> None:
        if self._fetch is not None:
            self._fetch.resolved(host, port, addresses, error, now)

    # -- for the shell

    def provider_call(self, now: float) -> Callable[[], object] | None:
        """Return a function to call between two steps, if a token or AWS keys must be fetched. It may block and raise.

        The caller passes the result to :meth:`provided` or :meth:`provider_failed`. If Ctrl-C interrupts the function,
        the call remains due.
        """
        if self._call is None:
            return None
        assert self._refresh is not None
        return self._call if self._refresh.is_due(now, self._wall_time()) else None

    def provided(self, returned: object, now: float) -> None:
        """Take the result of the function that :meth:`provider_call` has returned."""
        try:
            self._take(returned, now)
        except Exception as error:  # noqa: BLE001 - attributes of a returned object are user code, too
            # The frames of the traceback have the token as a local variable, which some error reporters show.
            self.provider_failed(error.with_traceback(None), now)

    def provider_failed(self, error: BaseException, now: float) -> None:
        """Take an exception of the function that :meth:`provider_call` has returned, or of its unusable result."""
        text = str(error) if isinstance(error, KafkaError) and str(error) else f"{self._source}: {_describe(error)}"
        is_final = isinstance(error, IllegalArgumentError)
        self._failed(error, text, now, retriable=not is_final, shows_at_once=True)

    def _settle(self, fetch: TokenFetch, now: float) -> None:
        self._fetch = None
        if fetch.token is not None:
            try:
                self._take(fetch.token, now)
            except IllegalArgumentError as unusable:
                self._failed(unusable.with_traceback(None), str(unusable), now, retriable=False)
            return
        error = fetch.error
        assert error is not None
        is_rejected = isinstance(error, KafkaConnectionError) and error.is_certificate_rejected
        self._failed(error, str(error), now, retriable=error.retriable and not is_rejected)

    def _take(self, returned: object, now: float) -> None:
        """Use a new token, or new AWS credentials; raise IllegalArgumentError if they cannot be used."""
        options, wall = self._options, self._wall_time()
        if options.sasl_mechanism == "OAUTHBEARER":
            claim = options.sasl_oauthbearer_sub_claim_name
            returned = token_of(returned, options.sasl_oauthbearer_extensions, wall, claim)
        new = cast("Token | LoadedCredentials", returned)
        if new.expires_at is not None and new.expires_at <= wall:
            raise IllegalArgumentError("the AWS credentials have expired, by this machine's clock")
        assert self._refresh is not None
        self._credentials = new
        self._refresh.succeeded(new.expires_at, now, wall)
        self._last_failure = ""
        self._error = None
        self._outages.recovered(None, now, f"new {self._what}")
        scope = ""
        if log.isEnabledFor(logging.DEBUG) and isinstance(new, Token):
            scope = f", scope {claims_of(new.value).get(options.sasl_oauthbearer_scope_claim_name)!r:.200}"
        log.debug("new %s: %r%s", self._what, new, scope)

    def _failed(
        self, error: BaseException, text: str, now: float, *, retriable: bool, shows_at_once: bool = False
    ) -> None:
        assert self._refresh is not None
        self._refresh.failed(now, retriable=retriable)
        self._last_failure = text
        is_valid = self._refresh.is_valid(self._wall_time())
        state = "the old one is still used" if is_valid else "no broker can be asked until there is one"
        self._outages.failed("credentials", now, f"cannot get {self._what} ({state}): {text}")
        if shows_at_once or not retriable or self._refresh.has_lasted(now):
            code = Code.SASL_AUTHENTICATION_FAILED
            self._error = SaslAuthenticationFailedError(f"no {self._what}: {text}", code=int(code), name=code.name)
            self._error.__cause__ = error

    def _mechanism(self, host: str) -> Mechanism:
        options = self._options
        name = options.sasl_mechanism
        credentials = self._credentials
        if isinstance(credentials, Token):
            from .oauthbearer import OAuthBearer

            return OAuthBearer(credentials)
        if credentials is not None:
            from .aws_msk_iam import AwsMskIam

            return AwsMskIam(host, credentials, options.sasl_aws_msk_iam_region or "", self._wall_time())
        if name == "GSSAPI":
            from .gssapi import Gssapi

            return Gssapi(options, host, self._wall_time())
        username, password = options.sasl_plain_username or "", options.sasl_plain_password or ""
        if name == "PLAIN":
            from .plain import Plain

            return Plain(username, password)
        from .scram import Scram

        assert name is not None
        return Scram(name, username, password, f"{self._random.randrange(2**192):048x}")


def _describe(error: BaseException) -> str:
    """Return an exception's type and text on one line."""
    try:
        text = shown(" ".join(str(error).split()))
    except Exception:  # noqa: BLE001 - __str__ of a user's exception
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
