"""The private PostgreSQL cluster: made from the installed binaries, run by an unprivileged user, loopback only."""

import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deployments.stack.state import StackState

ADMIN = "cairn_admin"
# Roles that log in, by the secret each one's password is kept under. What they may do is the migrations' business.
LOGIN_ROLES = {
    "cairn_app": "role_app",
    "cairn_gateway": "role_gateway",
    "cairn_serving": "role_serving",
    "cairn_loader": "role_loader",
    "cairn_prefect": "role_prefect",
}


class PostgresMissing(RuntimeError):
    """The server's programs are not installed."""


@dataclass(frozen=True)
class Cluster:
    """One cluster: where its programs and data are, and who runs it."""

    binaries: Path
    data: Path
    user: str | None

    def command(self, *arguments: str) -> list[str]:
        """A command line that runs as the cluster's user."""
        program, *rest = arguments
        # INT is PostgreSQL's fast shutdown; at TERM it would wait for its clients to leave.
        return [*as_user(self.user, "INT"), str(self.binaries / program), *rest]

    def server_command(self, port: int) -> list[str]:
        settings = {
            "port": str(port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            "shared_buffers": "128MB",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "idle_in_transaction_session_timeout": "60s",
            "jit": "off",  # what is asked here, by Prefect too, is over sooner than it is compiled
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return self.command("postgres", "-D", str(self.data), *options)

    def initialise(self, admin_password: str) -> None:
        """Make the cluster unless it is there. A half-made one, from an interrupted first start, is made anew."""
        if (self.data / "PG_VERSION").exists() and (self.data / "cairn-ready").exists():
            return
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(parents=True)
        self._give_to_user(self.data)
        self.data.chmod(0o700)
        with tempfile.NamedTemporaryFile("w", prefix="cairn-") as password:
            password.write(admin_password)
            password.flush()
            self._give_to_user(Path(password.name))
            self._run_initdb(password.name)
        marker = self.data / "cairn-ready"
        marker.touch()
        self._give_to_user(marker)

    def _run_initdb(self, password_file: str) -> None:
        options = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", f"--username={ADMIN}"]
        command = self.command("initdb", "-D", str(self.data), *options, f"--pwfile={password_file}")
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"PostgreSQL could not make its cluster: {done.stderr.strip() or done.stdout.strip()}")

    def _give_to_user(self, path: Path) -> None:
        if self.user:
            entry = pwd.getpwnam(self.user)
            os.chown(path, entry.pw_uid, entry.pw_gid)


def as_user(user: str | None, death_signal: str = "TERM") -> Sequence[str]:
    """The prefix that makes a command end with its parent and, where a user is named, run as that user."""
    identity = ["--reuid", user, "--regid", user, "--clear-groups"] if user else []
    return ["setpriv", *identity, "--pdeathsig", death_signal, "--"]


def find_cluster(state: StackState) -> Cluster:
    """The cluster of this state folder."""
    return Cluster(find_binaries(), data_folder(state), _cluster_user())


def data_folder(state: StackState) -> Path:
    """Where the cluster's data is: in the state folder, or where its user can reach it."""
    user = _cluster_user()
    if user is None or _reachable(state.root, user):
        return state.root / "postgres"
    # PostgreSQL refuses to run as root, and its own user cannot enter, say, root's closed home folder.
    return Path("/var/lib/cairn") / hashlib.sha256(str(state.root).encode()).hexdigest()[:16]


def _cluster_user() -> str | None:
    return _unprivileged_user() if os.geteuid() == 0 else None


def find_binaries() -> Path:
    """The folder of the newest server's programs."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if installed:
        return installed[-1].parent
    if found := shutil.which("postgres"):
        return Path(found).resolve().parent
    raise PostgresMissing(
        "PostgreSQL is not installed. Run `make setup`, or install the packages postgresql and postgresql-postgis, "
        "or set CAIRN_DATABASE_URL to a server of yours."
    )


def _unprivileged_user() -> str:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise PostgresMissing("Run as root, the stack needs a user `postgres` or `nobody` to run PostgreSQL as.")


def _reachable(folder: Path, user: str) -> bool:
    """Whether the user can pass through every folder on the way."""
    test = subprocess.run([*as_user(user), "test", "-x", str(folder)], cwd="/", check=False)
    return test.returncode == 0
