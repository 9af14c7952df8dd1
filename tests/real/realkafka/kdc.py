"""A Kerberos KDC for tests: MIT's krb5kdc with a realm, a database and keytabs of its own, on a port of 127.0.0.1.

Owns finding or installing the programs, and the process. The system's own Kerberos configuration is neither read nor
changed.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from . import debian, layout
from .admin import wait_for
from .processes import LAUNCHER

REALM = "THINCONSUMER.TEST"
#: Java's own limits and MIT's weak-crypto rules agree on these.
ENCRYPTION = "aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
#: krb5kdc and kdb5_util are in the first, kadmin.local is in the second.
PACKAGES = ("krb5-kdc", "krb5-admin-server")
#: Debian keeps the programs outside the PATH of users other than root.
SYSTEM_FOLDERS = "/usr/sbin:/usr/local/sbin:/opt/homebrew/opt/krb5/sbin:/usr/local/opt/krb5/sbin"
START_SECONDS = 20

KRB5_CONF = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_realm = false
  dns_lookup_kdc = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
[realms]
  {realm} = {{
    kdc = {host}:{port}
  }}
[domain_realm]
  localhost = {realm}
"""
KDC_CONF = """\
[kdcdefaults]
  kdc_listen = {host}:{port}
  kdc_tcp_listen = {host}:{port}
[realms]
  {realm} = {{
    database_name = {folder}/principal
    key_stash_file = {folder}/stash
    acl_file = {folder}/kadm5.acl
    supported_enctypes = {encryption}
  }}
[logging]
  kdc = FILE:{folder}/kdc.log
  admin_server = FILE:{folder}/kadmin.log
"""


class NoKdc(Exception):
    """A KDC cannot be run here; the message says what is missing."""


def programs() -> dict[str, str]:
    """Return the paths of the KDC's programs, installed now if root and Debian allow; raise ``NoKdc`` if not."""
    if missing := [name for name in PROGRAMS if _which(name) is None]:
        try:
            debian.install(*PACKAGES)
        except debian.CannotInstall as error:
            raise NoKdc(f"there is no {' and no '.join(missing)}: {error}") from error
    found = {name: _which(name) for name in PROGRAMS}
    if missing := [name for name, path in found.items() if path is None]:
        raise NoKdc(f"{' and '.join(PACKAGES)} are installed, but there is no {' and no '.join(missing)}")
    return {name: path for name, path in found.items() if path is not None}


class Kdc:
    """A running KDC with its files in ``folder``, from entering the ``with`` block to its end.

    Raises:
        NoKdc: its programs are missing and cannot be installed.
    """

    def __init__(self, folder: Path) -> None:
        self._programs = programs()
        self.folder = folder
        self.config = folder / "krb5.conf"
        self.realm = REALM
        (self._port,) = layout.free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Kdc:
        self.folder.mkdir(parents=True, exist_ok=True)
        values = {"realm": REALM, "host": layout.HOST, "port": self._port, "folder": self.folder}
        self.config.write_text(KRB5_CONF.format(**values), encoding="utf-8")
        (self.folder / "kdc.conf").write_text(KDC_CONF.format(**values, encryption=ENCRYPTION), encoding="utf-8")
        (self.folder / "kadm5.acl").touch()
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master-secret")
        command = [sys.executable, "-ISE", str(LAUNCHER), str(os.getpid()), self._programs["krb5kdc"], "-n"]
        with (self.folder / "krb5kdc.out").open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._environment()
            )
        try:
            wait_for(self._answers, START_SECONDS, f"the KDC of {self.folder}")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def keytab(self, principal: str) -> Path:
        """Make the principal, ``kafka/localhost`` for instance, unless it exists, and return a keytab with its key."""
        file = self.folder / f"{principal.replace('/', '-')}.keytab"
        if file.exists():
            return file  # ktadd would change the key, and make copies of the keytab useless
        self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
        self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {file} {principal}")
        if not file.exists():
            raise RuntimeError(f"no keytab of {principal} was written")
        return file

    def client_environment(self, keytab: Path | None = None) -> dict[str, str]:
        """Return the environment in which MIT's library uses this KDC, and the keytab to log in with.

        Tickets stay in the memory of the process: a file would outlive this KDC, and its keys.
        """
        found = {"KRB5_CONFIG": str(self.config), "KRB5CCNAME": f"MEMORY:{self.folder.name}-{keytab and keytab.name}"}
        return {**found, "KRB5_CLIENT_KTNAME": str(keytab)} if keytab else found

    # -- inside

    def _environment(self) -> dict[str, str]:
        files = {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf")}
        return {**os.environ, **files}

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs[program], *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self._environment(),
            timeout=START_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program} {arguments[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            said = (self.folder / "krb5kdc.out").read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"krb5kdc ended with {self._process.returncode}: {said[-2000:]}")
        try:
            socket.create_connection((layout.HOST, self._port), timeout=1).close()
        except OSError:
            return False
        return True

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _which(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=SYSTEM_FOLDERS)
