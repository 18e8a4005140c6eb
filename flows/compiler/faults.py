"""What the compiler answers when a file is wrong: faults, each with its place. Knows nothing of YAML or workflows."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from heapq import nsmallest
from typing import NamedTuple

_FAR = 12  # names that differ more in length are no slips of one another
_MANY = 100

Path = tuple[str | int, ...]

# Every code a fault may carry, with the law it stands for. Codes are public contract: never renamed, never reused.
CODES: dict[str, str] = {
    "yaml-syntax": "the file is not YAML",
    "yaml-unsafe": "anchors, aliases, tags, nesting deeper than 20 and files above 256 kB are refused",
    "duplicate-key": "a mapping names each key once",
    "missing-field": "a required field is given",
    "unknown-field": "only the fields of the language are used",
    "wrong-type": "a value has the type its field asks for",
    "bad-value": "a value is one its field allows",
    "bad-workflow-id": "workflow_id is lower snake case, unique, and the file's stem",
    "no-start": "a workflow has a start",
    "many-starts": "a workflow has one start only",
    "no-end": "a workflow has an end",
    "unknown-node": "a node that is named exists",
    "cycle": "no node leads back to itself",
    "unreachable-node": "every node can be reached from the start",
    "dead-end": "every node can reach an end",
    "unknown-handler": "a handler that is named is declared",
    "unknown-queue": "a queue that is named exists",
    "unknown-workflow": "a sub-workflow that is named exists",
    "queue-mismatch": "a handler is routed to a pool that has what it needs",
    "missing-param": "every required parameter is given",
    "unknown-param": "only declared parameters are given",
    "bad-param": "a literal parameter satisfies its declaration",
    "template-syntax": "a template is well formed, and only uses expressions",
    "unknown-filter": "only allow-listed filters are used",
    "unknown-input": "an input that a template reads is declared",
    "unknown-output": "a field that a template reads is in the declared result",
    "unknown-name": "a template only uses the names that exist",
    "not-upstream": "a template reads only nodes that ran before its own",
    "method-name": "keys that are also names of a mapping's methods are written in brackets",
    "item-outside-fan-out": "item, index and items exist only in the task of a fan_out",
    "missing-default-branch": "a conditional says where to go in every case",
    "bad-condition": "a condition is one expression",
    "fan-out-without-fan-in": "a fan_out leads to exactly one fan_in of its own",
    "fan-in-without-fan-out": "the only predecessor of a fan_in is its fan_out",
    "bad-input-default": "the default of an input satisfies the input's own bounds",
    "bad-retry": "a retry policy is one that can be carried out",
    "bad-timeout": "a timeout is a number of seconds above zero",
    "bad-tolerance": "tolerated_failures is a count or a percentage",
    "may-be-skipped": "reading a node that may have been skipped takes a default",
    "duplicate-accepts": "one workflow serves a (data_type, operation)",
}


class FilePosition(NamedTuple):
    """A place in a file: 1-based line and column."""

    line: int = 1
    column: int = 1


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong, where it is, and what would be right."""

    file: str
    line: int
    column: int
    code: str
    message: str
    pointer: str
    hint: str = ""

    def to_json(self) -> dict[str, str | int]:
        return dict(self.__dict__)


def by_place(fault: Fault) -> tuple[int, int, str, str]:
    """Sort key: the order in which a reader meets the faults."""
    return fault.line, fault.column, fault.code, fault.message


def pointer(path: Path) -> str:
    """The path as an RFC 6901 JSON pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like this one, or an empty string where none is near."""
    wanted = name[:100].lower()
    by_lower = {candidate.lower(): candidate for candidate in known if abs(len(candidate) - len(wanted)) <= _FAR}
    candidates = sorted(by_lower)
    if len(candidates) > _MANY:  # comparing closely is slow, and a file may hold thousands of names and of slips
        candidates = [candidate for candidate in candidates if candidate[:2] == wanted[:2]][:_MANY]
    found = get_close_matches(wanted, candidates, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else ""


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A hint that proposes the nearest known name, or else what may be written at all."""
    candidates = list(known)
    found = nearest(name, candidates)
    if found:
        return f"did you mean {found!r}?"
    return otherwise or (f"known here: {listing(candidates)}" if candidates else "")


def listing(names: Iterable[str], limit: int = 8) -> str:
    """The names in one line, shortened where there are many."""
    every = list(names)
    shown = ", ".join(nsmallest(limit, every))
    return f"{shown}, … ({len(every)} in all)" if len(every) > limit else shown


def excerpt(value: object, limit: int = 60) -> str:
    """The value as a message may quote it: short, on one line."""
    shown = repr(value) if not isinstance(value, str) else repr(value[: limit + 1])
    return shown if len(shown) <= limit else shown[:limit] + "…"
