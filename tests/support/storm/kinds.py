"""Which processes a stack is made of, by kind, as its own process table tells: nobody lists them by hand.

A service is known by its command line, so that its replacement is known before it is ready. What services start is
named after them and after the program; forks of one program are told apart by whether they lead a session.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployments.stack.supervisor import processes_marked

FORK, LEADER = "fork", "fork with a session"
ZYGOTE = "deployments.warm.zygote"
NAMED = {ZYGOTE: "zygote", f"{ZYGOTE} {FORK}": "flow process", f"{ZYGOTE} {LEADER}": "try"}
PASSING = ("setpriv",)  # what becomes another program at once


@dataclass(frozen=True)
class Process:
    """One line of the table."""

    pid: int
    parent: int
    session: int
    command: tuple[str, ...]

    @property
    def program(self) -> str:
        """The module or the file that is run."""
        arguments = list(self.command)
        if "-m" in arguments[:-1]:
            return arguments[arguments.index("-m") + 1]
        scripts = [Path(word).name for word in arguments if word.endswith(".py")]
        return scripts[0] if scripts else Path(arguments[0].split(":")[0]).name


@dataclass(frozen=True)
class Kinds:
    """The kinds of one stack's processes."""

    marker: str
    supervisor: int
    services: Mapping[tuple[str, ...], str]

    @classmethod
    def of(cls, marker: str, facts: Mapping[str, Any]) -> "Kinds":
        """As the stack is now, with everything up."""
        pids = {name: service["pid"] for name, service in facts["services"].items() if not service["step"]}
        found = {name: read(pid) for name, pid in pids.items()}
        return cls(
            marker, facts["supervisor_pid"], {process.command: name for name, process in found.items() if process}
        )

    def now(self) -> dict[str, list[int]]:
        """The living processes of each kind.

        Some have overwritten the mark that they were started with: those are known by who started them.
        """
        table = {process.pid: process for pid in _numbers() if (process := read(pid))}
        found: dict[str, list[int]] = defaultdict(list)
        ours = {self.supervisor, *processes_marked(self.marker)}
        for process in table.values():
            lineage = _lineage(process, table)
            is_ours = not ours.isdisjoint(one.pid for one in lineage)
            if is_ours and (kind := self._kind(lineage)):
                found[kind].append(process.pid)
        return dict(found)

    def _kind(self, lineage: Sequence[Process]) -> str | None:
        """None for what belongs to no service that we know, and for what is no program yet."""
        for place, one in reversed(list(enumerate(lineage))):
            if service := self.services.get(one.command):
                return service if place == 0 else self._below(service, lineage[: place + 1])
        return None

    def _below(self, service: str, lineage: Sequence[Process]) -> str | None:
        """What a service has started; a database's processes are all alike in that they take all others with them."""
        process, parent = lineage[0], lineage[1]
        if process.program in PASSING or (process.command == parent.command and service == "postgres"):
            return None
        name = process.program
        if name == parent.program and process.command != parent.command:
            return f"{service}: its process"  # it has given itself a title
        if process.command == parent.command:
            name = f"{name} {LEADER if process.session == process.pid else FORK}"
        return f"{service}: {NAMED.get(name, name)}"


def _numbers() -> Iterator[int]:
    return (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit())


def _lineage(process: Process, table: Mapping[int, Process]) -> list[Process]:
    """It, who started it, and so on."""
    lineage = [process]
    while (parent := table.get(lineage[-1].parent)) is not None and parent not in lineage:
        lineage.append(parent)
    return lineage


def read(pid: int | None) -> Process | None:
    """What the kernel says of a process; nothing of one that is gone or dead."""
    with suppress(OSError, ValueError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode(errors="replace").split("\0")
        state, parent, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
        if pid and command[0] and state not in "ZX":
            return Process(pid, int(parent), int(session), tuple(command))
    return None
