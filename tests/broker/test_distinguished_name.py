"""Names of subjects as Java writes them."""

import pytest

from thinconsumer_testing.broker.tls_channel import distinguished_name


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ((), ""),
        (((("countryName", "DE"),), (("organizationName", "Ex"),), (("commonName", "alice"),)), "CN=alice,O=Ex,C=DE"),
        (((("commonName", "a"), ("userId", "b")),), "CN=a+UID=b"),
        (((("organizationName", 'A, "B" <C>; D+E\\F'),),), 'O=A\\, \\"B\\" \\<C\\>\\; D\\+E\\\\F'),
        (((("commonName", "#1 "),),), "CN=\\#1\\ "),
        (((("commonName", " "),),), "CN=\\ "),
        (((("emailAddress", "a@b"),), (("commonName", "x"),)), "CN=x,1.2.840.113549.1.9.1=#1603614062"),
        (((("emailAddress", "ä"),), (("title", "Dr"),)), "title=Dr,emailAddress=ä"),
    ],
)  # fmt: skip
def test_names(subject, name):
    assert distinguished_name(subject) == name
