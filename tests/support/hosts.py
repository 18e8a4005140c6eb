"""Worker hosts beside a stack: each a network namespace with a name, an address and a wire of its own.

What runs there has no loopback in common with the stack and reaches its services by the wire, which can be pulled. All
of it goes with the test, be that killed: a process that the kernel wakes then takes the namespaces down.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from deployments.stack.owner import tied
from deployments.stack.ports import any_port
from tests.support.clock import until
from tests.support.engine_chaos import Trial, descendants, kill
from tests.support.storm.links import Line, carrying

# Waits for SIGTERM, which it gets too when whoever started it is gone, and takes everything down.
TAKE_DOWN = """
import os, signal, subprocess, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
signal.sigwait({signal.SIGTERM})
for name in sys.argv[1:]:
    pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()
    for pid in pids:
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
"""
STOCK = ("prefect", "worker", "start", "--pool", "{pool}", "--type", "process", "--name", "{name}", "--limit", "2")
OURS = ("cairn", "worker", "start", "--pool", "{pool}", "--name", "{name}")


@dataclass
class Host:
    """One host, from inside whose namespace the stack is at `gateway`."""

    name: str
    namespace: str
    wire: str
    gateway: str
    environment: Mapping[str, str]
    folder: Path
    workers: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start_worker(self, command: tuple[str, ...], pool: str = "gdal") -> None:
        """Start a worker, under a host name of its own."""
        program, *rest = [part.format(pool=pool, name=self.name) for part in command]
        inside = f'hostname {self.name} && exec "$0" "$@"'
        found = str(Path(sys.executable).parent / program)
        made = ("ip", "netns", "exec", self.namespace, "unshare", "--uts", "sh", "-c", inside, found, *rest)
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.workers.append(
                subprocess.Popen(
                    tied(*made), env=self.environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
                )
            )

    def cut_off(self) -> None:
        """Pull the wire: what is sent goes nowhere, and nobody is told."""
        order("ip", "link", "set", self.wire, "down")

    def connect(self) -> None:
        order("ip", "link", "set", self.wire, "up")

    def kill(self) -> None:
        """End every process of the host at once, as when its power goes."""
        for pid in self.pids():
            kill(pid)
        for worker in self.workers:
            kill(worker.pid)
            worker.wait()
        self.workers.clear()

    def pids(self) -> set[int]:
        told = subprocess.run(
            ["ip", "netns", "pids", self.namespace], capture_output=True, text=True, check=False
        ).stdout.split()
        return {int(pid) for pid in told} | (descendants({one.pid for one in self.workers}) if self.workers else set())

    def log(self) -> str:
        with suppress(FileNotFoundError):
            return (self.folder / f"{self.name}.log").read_text(errors="replace")
        return ""


@contextmanager
def hosts(made: Trial, folder: Path, *names: str) -> Iterator[list[Host]]:
    """Hosts of these names while the block runs, with the stack's storage as a folder that all of them mount."""
    own = f"{os.getpid():x}"
    namespaces = {name: f"cairn-{own}-{name}" for name in names}
    watch = subprocess.Popen(tied(sys.executable, "-c", TAKE_DOWN, *namespaces.values(), by="TERM"))
    try:
        found, lines = [], []
        for number, name in enumerate(names):
            host, more = _host(made, folder, name, namespaces[name], number)
            found.append(host)
            lines += more
        with carrying(*lines):
            try:
                yield found
            finally:
                for host in found:
                    host.kill()
    finally:
        watch.terminate()
        watch.wait()


def _host(made: Trial, folder: Path, name: str, namespace: str, number: int) -> tuple[Host, list[Line]]:
    net = f"10.{128 + os.getpid() % 100}.{number + 1 + os.getpid() // 100 % 200}"
    wire, gateway = f"cw{os.getpid():x}{number}", f"{net}.1"
    order("ip", "netns", "add", namespace)
    order("ip", "link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", namespace)
    order("ip", "addr", "add", f"{gateway}/30", "dev", wire)
    order("ip", "link", "set", wire, "up")
    order("ip", "-n", namespace, "addr", "add", f"{net}.2/30", "dev", "eth0")
    order("ip", "-n", namespace, "link", "set", "eth0", "up")
    order("ip", "-n", namespace, "link", "set", "lo", "up")
    ports = {service: any_port() for service in ("prefect", "domain")}
    lines = [Line(service, port, partial(port_of, made, service), gateway) for service, port in ports.items()]
    place = folder / name
    place.mkdir(parents=True)
    return Host(name, namespace, wire, gateway, _environment(made, place, gateway, ports), place), lines


def port_of(made: Trial, service: str) -> int:
    return int(made.stack.url(service).rpartition(":")[2])


def _environment(made: Trial, place: Path, gateway: str, ports: Mapping[str, int]) -> dict[str, str]:
    """What docs/how-to/serve-pools.md tells a worker's machine to set, and the test's short patience."""
    content = Path(f"/proc/{made.service('worker-gdal')}/environ").read_bytes().decode()
    stack = dict(entry.split("=", 1) for entry in content.split("\0") if "=" in entry)
    kept = ("PATH", "LANG", "CAIRN_OWNER", "CAIRN_WORKER_TOKEN", "CAIRN_STORAGE_ROOT", "CAIRN_CHILD_SILENCE_SECONDS")
    passed = {name: stack[name] for name in (*kept, "CAIRN_WORKFLOWS_DIR", "PREFECT_API_AUTH_STRING") if name in stack}
    return passed | {
        "HOME": str(place),
        "PREFECT_HOME": str(place / "prefect"),
        "PREFECT_API_URL": f"http://{gateway}:{ports['prefect']}/api",
        "PREFECT_LOGGING_EXTRA_LOGGERS": "cairn",
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "CAIRN_DOMAIN_URL": f"http://{gateway}:{ports['domain']}",
        "CAIRN_PLAINTEXT_HOSTS": f'["{gateway}"]',  # the wire is as private as loopback
        "TMPDIR": str(place),
    }


def order(*command: str) -> None:
    subprocess.run(command, check=True)


def until_online(made: Trial, names: set[str], pool: str = "gdal", seconds: float = 90.0) -> None:
    """Wait until Prefect has heard of these workers."""

    def online() -> bool:
        with made.stack.prefect() as http:
            body = {"workers": {"status": {"any_": ["ONLINE"]}}}
            found = http.post(f"/work_pools/{pool}/workers/filter", json=body).raise_for_status().json()
        return names <= {one["name"] for one in found}

    until(online, seconds, lambda: f"not all of {names} are online")
