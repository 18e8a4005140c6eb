"""Where an embedded stack keeps what it knows: one folder, `.cairn/` in the clone unless CAIRN_STATE says otherwise."""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent.parent
LOCK = "supervisor.lock"
LOCK_TRIES, LOCK_PAUSE_SECONDS = 5, 0.1
SECRET_NAMES = (
    "postgres_admin",
    "role_app",
    "role_gateway",
    "role_serving",
    "role_loader",
    "role_prefect",
    "redis",
    "prefect_auth",
    "client_ddh",
    "client_arcgis",
    "client_geonode",
    "reviewer",
    "operator",
    "worker",
    "gateway",
    "admin",
    "sealing",
    "audit",
    "prefect_encryption",
    "callback_ddh",
    "callback_arcgis",
    "callback_geonode",
)


class StackRunning(RuntimeError):
    """A stack is already up in this state folder."""


@dataclass(frozen=True)
class StackState:
    """Paths and small files of one stack."""

    root: Path

    @classmethod
    def default(cls) -> "StackState":
        return cls(Path(os.environ.get("CAIRN_STATE") or REPOSITORY / ".cairn").resolve())

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def storage(self) -> Path:
        return self.root / "storage"

    @property
    def temporary(self) -> Path:
        return self.root / "tmp"

    @property
    def stack_file(self) -> Path:
        return self.root / "stack.json"

    @property
    def credentials_file(self) -> Path:
        return self.root / "credentials.json"

    def log(self, service: str) -> Path:
        return self.logs / f"{service}.log"

    def create(self) -> None:
        """Make the folders. Others may pass through to what is theirs, and list nothing."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o711)
        for folder in (self.logs, self.storage, self.temporary):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o700)

    @cached_property
    def secrets(self) -> dict[str, str]:
        """Passwords and tokens of this stack, made once and kept."""
        path = self.root / "secrets.json"
        known = read_json(path) or {}
        missing = [name for name in SECRET_NAMES if name not in known]
        if missing:
            known |= {name: secrets.token_urlsafe(32) for name in missing}
            write_private_json(path, known)
        return known

    @property
    def sealing_key(self) -> str:
        """The key that seals what the domain must read again: 32 bytes as Fernet writes them."""
        return self.secrets["sealing"] + "="

    @property
    def prefect_encryption_key(self) -> str:
        """The key that seals the content of Prefect's blocks, outside the database that holds them."""
        return self.secrets["prefect_encryption"] + "="

    def callback_secret(self, platform: str) -> str:
        """What a development client verifies its callbacks with."""
        return "whsec_" + self.secrets[f"callback_{platform}"].translate(str.maketrans("-_", "+/")) + "="

    def running(self) -> dict[str, Any] | None:
        """What the running stack wrote about itself, or None where none runs."""
        return read_json(self.stack_file) if self.is_locked() else None

    def is_locked(self) -> bool:
        """Whether a supervisor lives. The lock dies with its holder, so it is never stale as a pid file can be.

        Looking makes no folder: commands that only ask run where nothing may be written.
        """
        try:
            descriptor = os.open(self.root / LOCK, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    @contextmanager
    def supervisor_lock(self) -> Iterator[None]:
        """Hold the right to run a stack in this folder."""
        self.root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _try_lock(descriptor):
            os.close(descriptor)
            raise StackRunning(f"A stack is already up in {self.root}.")
        try:
            yield
        finally:
            os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Take the lock and say whether that worked. A mere look holds it for a moment, hence several tries."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_PAUSE_SECONDS)
        else:
            return True
    return False


def read_json(path: Path) -> dict[str, Any] | None:
    """The file's object, or None where there is no such file."""
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    if not isinstance(content, dict):
        raise TypeError(f"{path.name} does not hold a JSON object.")
    return content


def write_private_json(path: Path, content: dict[str, Any]) -> None:
    """Replace the file as a whole, readable by its owner only."""
    temporary = path.with_suffix(".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file, indent=2)
    temporary.replace(path)
