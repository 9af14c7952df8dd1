"""Failed logins: the error for the client, and the details that only the log has."""

import pytest

from thinconsumer_testing.broker.login.exchange import LoginFailedError


@pytest.mark.parametrize(("arguments", "details"), [(("told",), "told"), (("told", "hidden"), "hidden")])
def test_details_are_for_the_log(arguments, details):
    error = LoginFailedError(*arguments)
    assert (str(error), error.details) == ("told", details)
