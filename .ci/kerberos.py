"""Install what the tests of GSSAPI need: ``python .ci/kerberos.py`` with the Python that is to run them.

The package ``gssapi`` has no wheels for Linux: it is compiled against libkrb5-dev. The KDC is Debian's. Debian packages
are installed as root; elsewhere these tests are skipped, and this says why. With ``THINCONSUMER_REQUIRE_KAFKA=1`` that
is a failure.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "real"))
from realkafka import debian, kdc

REQUIREMENT = "gssapi>=1.8"
#: What compiles it: krb5-config and headers of the library, and a compiler.
BUILD_PACKAGES = ("libkrb5-dev", "gcc", "libc6-dev")
#: Tests do not need fast code: without optimisation gssapi is compiled in a third of the time.
QUICK = "-O0 -g0"


def main() -> int:
    """Return the exit code, after saying what is missing."""
    try:
        kdc.programs()
        _gssapi()
    except (kdc.NoKdc, debian.CannotInstall) as error:
        print(f"NO KERBEROS: its tests are skipped. {error}")
        return int(os.environ.get("THINCONSUMER_REQUIRE_KAFKA") == "1")
    print("Kerberos: gssapi and a KDC are there")
    return 0


def _gssapi() -> None:
    """Install the package for this Python; pip keeps what it has compiled, so only the first time takes long."""
    if importlib.util.find_spec("gssapi"):
        return
    if sys.platform == "linux" and (shutil.which("krb5-config") is None or shutil.which("cc") is None):
        debian.install(*BUILD_PACKAGES)
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", REQUIREMENT]
    environment = {**os.environ, "CFLAGS": f"{os.environ.get('CFLAGS', '')} {QUICK}".strip()}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment)
    if done.returncode:
        raise debian.CannotInstall(f"pip install {REQUIREMENT} failed: {(done.stdout + done.stderr)[-2000:]}")


if __name__ == "__main__":
    sys.exit(main())
