"""What a run remembers of its nodes and items, in run storage, so that nothing that succeeded is done again.

Each process appends to files of its own and readers take all of them, so two of them, even an old one that should be
dead, never spoil each other's lines. A line that a kill cut short is no line. Later attempts read what earlier ones
wrote: the memory belongs to the run.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flows.compiler import NodeOutcome, RunError, State
from flows.memory.large_values import KeptValues, to_json
from flows.memory.measured import MEASURED
from flows.storage import SmallStore

log = logging.getLogger("cairn.ledger")
NODES = "_nodes"  # no node is called this: ids begin with a letter
LINES_A_FILE = 20_000  # stores take 50,000 appends to a blob


@dataclass(frozen=True)
class LedgerEntry:
    """How one node, or one item of a fan-out, ended, as far as its process could tell."""

    node: str
    digest: str
    state: str
    tries: int
    worker: str
    started_at: float
    ended_at: float
    index: int | None = None
    key: str | None = None
    output: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    metrics: Mapping[str, float] | None = None

    @property
    def is_completed(self) -> bool:
        return self.state == State.COMPLETED.value


@dataclass
class Ledger:
    """The memory of one run, with the file that this process adds to."""

    store: SmallStore
    memory: str
    writer: str
    make_sure: Callable[[], None] = lambda: None  # raises where somebody else was given this process's work
    has_measured: bool = False  # by this process
    _nodes: dict[str, LedgerEntry] | None = field(default=None)
    _lines: Counter[str] = field(default_factory=Counter)

    @property
    def values(self) -> KeptValues:
        return KeptValues(self.store, self.memory)

    def read_nodes(self) -> None:
        """Read what is remembered of nodes. Once is enough: what this process does from then on it notes itself."""
        self._nodes = {entry.node: entry for entry in self._entries(NODES) if entry.is_completed}

    def is_new(self, path: str) -> bool:
        """Whether nothing is remembered of this node, as far as that is known without a look at storage."""
        return self._nodes is not None and path not in self._nodes

    def node_outcome(self, path: str, digest: str) -> NodeOutcome | None:
        """How this node ended if it has succeeded before, with the same work to do."""
        if self._nodes is None:
            self.read_nodes()
        return self._outcome((self._nodes or {}).get(path), digest)

    def completed_nodes(self) -> set[str]:
        """The nodes that have succeeded by now, in whatever process."""
        return {entry.node for entry in self._entries(NODES) if entry.is_completed}

    def completed_items(self, path: str) -> dict[str, LedgerEntry]:
        """The items of a fan-out that have succeeded before, by key."""
        return {entry.key: entry for entry in self._entries(path) if entry.is_completed and entry.key is not None}

    def item_outcome(self, entries: Mapping[str, LedgerEntry], key: str, digest: str) -> NodeOutcome | None:
        """How this item ended if it has succeeded before, with the same work to do."""
        return self._outcome(entries.get(key), digest)

    def _outcome(self, entry: LedgerEntry | None, digest: str) -> NodeOutcome | None:
        if entry is None or entry.digest != digest or entry.output is None:
            return None
        return NodeOutcome(State.COMPLETED, self.values.load(entry.output))

    def record(self, entry: LedgerEntry) -> None:
        """Write the entry down. Once this returns, no attempt repeats what has succeeded."""
        self.make_sure()
        place = NODES if entry.index is None else entry.node
        self._append(place, {name: value for name, value in entry.__dict__.items() if value is not None})
        if place == NODES and entry.is_completed and self._nodes is not None:
            self._nodes[entry.node] = entry  # a sub-workflow that is tried again asks for it

    def measure(self, work: str, worker: str, started_at: float, metrics: Mapping[str, float]) -> None:
        """Write down what one try has measured."""
        line = {"work": work, "worker": worker, "started_at": started_at, "metrics": dict(metrics)}
        self.has_measured = True
        self._append(MEASURED, line)

    def _append(self, place: str, line: Mapping[str, Any]) -> None:
        self._lines[place] += 1
        part = self._lines[place] // LINES_A_FILE
        file = f"{self.writer}-{part}" if part else self.writer
        try:
            self.store.append(f"{self.memory}/ledger/{place}/{file}.jsonl", to_json(line).encode() + b"\n")
        except Exception:
            self._lines[place] += LINES_A_FILE  # it may end in half a line, which would spoil the next one
            raise

    def _entries(self, place: str) -> Iterator[LedgerEntry]:
        return read(self.store, self.memory, place)


def read(store: SmallStore, memory: str, place: str) -> Iterator[LedgerEntry]:
    """All entries of a fan-out's items, or of the run's nodes, file by file.

    A line that is none, as a full disk leaves it, costs its work again, never the run.
    """
    for name in store.names(f"{memory}/ledger/{place}"):
        for number, line in enumerate(store.read_bytes(name).split(b"\n")[:-1], 1):
            try:
                entry = LedgerEntry(**json.loads(line))
            except (ValueError, TypeError):
                where = {"file": name, "line": number}
                log.warning("line of a run's memory unreadable; its work is done again", extra=where)
            else:
                yield entry


def latest(entries: Iterator[LedgerEntry]) -> list[LedgerEntry]:
    """What is known of each item of a fan-out, in item order: a success outweighs failures, then the later counts."""
    best: dict[int, LedgerEntry] = {}
    for entry in entries:
        if entry.index is None:
            continue
        known = best.get(entry.index)
        if known is None or (entry.is_completed, entry.ended_at) >= (known.is_completed, known.ended_at):
            best[entry.index] = entry
    return [best[index] for index in sorted(best)]


def digest(work: str | None, params: Mapping[str, Any]) -> str:
    """What a piece of work is, so that the same name with other parameters is not taken for it."""
    return hashlib.sha256(f"{work}\n{to_json(params)}".encode()).hexdigest()[:32]


def error_json(error: RunError) -> dict[str, Any]:
    return dict(error.__dict__)
