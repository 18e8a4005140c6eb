"""What of a stack is opened to other hosts, where, and what a worker host is given to join it."""

import os
import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from deployments.stack.state import StackState
from flows.pools import POOLS, PROCESS

if TYPE_CHECKING:  # loading what makes certificates takes longer than most commands
    from deployments.stack.certs import Certificates

LISTEN = "CAIRN_LISTEN"
OPENED = ("gateway", "domain", "prefect")  # serving stands behind the gateway; databases stay on loopback
# How a worker of any kind works here; Prefect's own reads these from the same file.
WORKING = {
    "PREFECT_WORKER_QUERY_SECONDS": "1",
    "PREFECT_WORKER_ENABLE_CANCELLATION": "true",
    "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
}


class CannotListen(RuntimeError):
    """The address is not one at which this host can be reached."""


@dataclass(frozen=True)
class Opening:
    """An address at which other hosts reach a stack, by TLS alone."""

    state: StackState
    address: str  # as other hosts know it: a name, or an address

    @classmethod
    def told(cls, state: StackState) -> "Opening | None":
        """What the environment says; None where the stack stays on loopback."""
        address = os.environ.get(LISTEN, "").strip()
        return cls(state, address) if address else None

    @property
    def certificates(self) -> "Certificates":
        return certificates_of(self.state)

    @property
    def folder(self) -> Path:
        """What worker hosts are given a copy of."""
        return self.state.root / "worker-host"

    @property
    def settings(self) -> Path:
        return self.folder / "worker.env"

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    def url(self, port: int) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"https://{host}:{port}"

    def bound(self) -> str:
        """The address of this host to listen at. Raises where it is none, or means every one or nobody else."""
        try:
            found = socket.getaddrinfo(self.address, None, type=socket.SOCK_STREAM)[0]
        except OSError as error:
            raise CannotListen(f"{self.address} is no address of this host ({error.strerror}).") from None
        numeric = ip_address(str(found[4][0]))
        if numeric.is_unspecified:
            raise CannotListen(
                f"Name the address by which other hosts reach this one: {self.address} means all of them."
            )
        if numeric.is_loopback:
            raise CannotListen(f"{self.address} is loopback, where nobody else is: leave --listen out.")
        with socket.socket(found[0], socket.SOCK_STREAM) as probe:
            try:
                probe.bind((str(numeric), 0))
            except OSError as error:
                raise CannotListen(f"{self.address} is no address of this host ({error.strerror}).") from None
        return str(numeric)

    def prepare(self) -> None:
        """Have certificates that are good for the address."""
        from deployments.stack.certs import names_for

        self.certificates.ensure(names_for(self.address))

    def write_worker_settings(self, ports: Mapping[str, int], storage: Mapping[str, str]) -> None:
        """Write what a worker host needs, the workers' credentials among it: readable by the owner only."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.folder.chmod(0o700)
        told = {
            "PREFECT_API_URL": f"{self.url(ports['prefect'])}/api",
            "PREFECT_API_AUTH_STRING": f"cairn:{self.state.secrets['prefect_auth']}",
            "PREFECT_API_SSL_CERT_FILE": str(self.authority),
            **WORKING,
            "CAIRN_DOMAIN_URL": self.url(ports["domain"]),
            "CAIRN_DOMAIN_CA_FILE": str(self.authority),
            "CAIRN_WORKER_TOKEN": self.state.secrets["worker"],
            **storage,
        }
        lines = [f"export {name}={shlex.quote(value)}" for name, value in told.items()]
        self.write_authority()
        _write_private(self.settings, "\n".join(lines) + "\n")

    def write_authority(self) -> None:
        """Write the certificate that worker hosts trust, where there are to be any."""
        if self.folder.is_dir():
            _write_private(self.authority, self.certificates.authority.read_text())

    def instructions(self, storage: Mapping[str, str]) -> str:
        """What to do on a worker host, in words and as the command itself."""
        shared = storage.get("CAIRN_STORAGE_ROOT")
        mount = f"mount {shared} there at the same place" if shared else "let it reach the storage account"
        return (
            f"Workers on another host: copy {self.folder} to the same place there (it holds the workers' credentials), "
            f"{mount}, then\n  {self.command()}\nor, with a worker of Prefect's own,\n  {self.command(own=False)}"
        )

    def command(self, *, own: bool = True) -> str:
        """The one command of a worker host."""
        pool = next(name for name, entry in POOLS.items() if entry.worker_type == PROCESS)
        worker = f"cairn worker start --pool {pool}" if own else f"prefect worker start --type process --pool {pool}"
        return f". {shlex.quote(str(self.settings))} && {worker}"


def certificates_of(state: StackState) -> "Certificates":
    """The certificates of the stack, whether it is opened now or not."""
    from deployments.stack.certs import Certificates

    return Certificates(state.root / "certs")


def _write_private(path: Path, content: str) -> None:
    temporary = path.with_suffix(f"{path.suffix}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(content)
    temporary.replace(path)
