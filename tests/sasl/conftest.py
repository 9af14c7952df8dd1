"""Options of logins, and a token endpoint in memory."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from thinconsumer.config import ClientOptions
from thinconsumer.testing import MemoryDriver, Network, ScriptedPeer

#: The value of every secret option in these tests: it must be printed nowhere.
SECRET = "c4n4ry/s3cr3t+"
URL = "http://idp.example:8080/token?key=hidden"
ADDRESS = ("10.0.0.1", 8080)


def login_options(**changed) -> ClientOptions:
    """Return options without the checks of a configuration: OAUTHBEARER with tokens from ``URL``."""
    options = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": URL,
        "sasl_oauthbearer_client_credentials_client_id": "app",
        "sasl_oauthbearer_client_credentials_client_secret": SECRET,
    }
    return ClientOptions(**options | changed)


@pytest.fixture
def make_options():
    return login_options


class Keys:
    """Private keys of the two algorithms of assertions, and one of neither."""

    def __init__(self) -> None:
        self.private = {
            "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
            "ES256": ec.generate_private_key(ec.SECP256R1()),
            "P-384": ec.generate_private_key(ec.SECP384R1()),
        }

    def pem(self, name: str, passphrase: str = "", form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
        """Return a key, encrypted if there is a passphrase."""
        encryption = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
        return self.private[name].private_bytes(Encoding.PEM, form, encryption)

    def public(self, name: str) -> object:
        return self.private[name].public_key()


@pytest.fixture(scope="session")
def keys() -> Keys:
    return Keys()


class Stage:
    """A network in memory with one driver. The host of ``URL`` has the addresses 10.0.0.1 and 10.0.0.2."""

    def __init__(self) -> None:
        self.network = Network()
        self.network.names["idp.example"] = ["10.0.0.1", "10.0.0.2"]
        self.driver = MemoryDriver(self.network, seed=1)
        self.clock = self.network.clock
        self.random = self.driver.random

    def serve(self, *answers: bytes, then_close: bool = True, host: str = "10.0.0.1") -> ScriptedPeer:
        """Answer each connection with these bytes, in turn for each part of the request that arrives."""
        peer = ScriptedPeer(*answers, then_close=then_close)
        self.network.listen(host, ADDRESS[1], peer)
        return peer


@pytest.fixture
def stage() -> Stage:
    return Stage()
