"""Faults that are known by construction: valid files, broken at one place, must be told there and by the right code.

Each mutation changes one scalar or key of a valid file, so its place is where that scalar stands. A mutation may lead
to other faults as well (a node that is gone is missed elsewhere); the one that was planted must be among them.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flows.compiler import Fault, compile_text
from flows.compiler.interfaces import Sketch
from flows.compiler.source import Document, read
from flows.handlers.registry import registry

VALID = sorted((Path(__file__).parent / "valid").glob("*.yaml")) + sorted(Path("workflows").glob("*.yaml"))
SIBLINGS = {"inner": Sketch({}, {}), "smallest": Sketch({}, {})}
Place = tuple[str, int, int]


def scalar_at(document: Document, path: tuple[str | int, ...], new: str) -> str | None:
    """The text with the plain scalar at this path replaced; None where it is not a plain word on one line."""
    place = document.values[path]
    lines = document.text.split("\n")
    line = lines[place.line - 1]
    found = re.compile(r"[A-Za-z0-9_.]+").match(line, place.column - 1)
    if not found or (found.end() < len(line) and line[found.end()] not in ",}] "):
        return None
    lines[place.line - 1] = line[: found.start()] + new + line[found.end() :]
    return "\n".join(lines)


def key_at(document: Document, path: tuple[str | int, ...], new: str) -> str:
    """The text with the key at this path renamed."""
    place = document.keys[path]
    lines = document.text.split("\n")
    line = lines[place.line - 1]
    lines[place.line - 1] = line[: place.column - 1] + new + line[place.column - 1 + len(str(path[-1])) :]
    return "\n".join(lines)


def paths_ending(document: Document, *keys: str) -> Iterator[tuple[str | int, ...]]:
    """Scalars of nodes that stand under one of these fields."""
    for path in document.values:
        if len(path) == 3 and path[0] == "nodes" and path[-1] in keys:
            yield path


def value_mutations(key: str, new: str, code: str) -> Callable[[Document], Iterator[tuple[str, Place]]]:
    def mutate(document: Document) -> Iterator[tuple[str, Place]]:
        for path in paths_ending(document, key):
            text = scalar_at(document, path, new)
            if text is not None:
                yield text, (code, document.values[path].line, document.values[path].column)

    return mutate


def renamed_fields(document: Document) -> Iterator[tuple[str, Place]]:
    for path, place in document.keys.items():
        if len(path) == 3 and path[0] == "nodes" and path[-1] in ("params", "timeout_seconds", "retry", "when"):
            yield key_at(document, path, "no_such_field"), ("unknown-field", place.line, place.column)


def unknown_inputs(document: Document) -> Iterator[tuple[str, Place]]:
    """An input that is read loses its declaration's name: every template that reads it is told."""
    for path in document.keys:
        if len(path) == 2 and path[0] == "inputs":
            reading = re.compile(rf"\{{\{{ inputs\.{path[1]}\b")
            for reader, place in document.values.items():
                value = value_at(document, reader)
                if isinstance(value, str) and reading.search(value) and reader[0] in ("nodes", "outputs"):
                    yield key_at(document, path, "renamed_away"), ("unknown-input", place.line, place.column)


def doubled_lines(document: Document) -> Iterator[tuple[str, Place]]:
    """A top-level line is written twice: the second is the fault."""
    lines = document.text.split("\n")
    for path, place in document.keys.items():
        if len(path) == 1 and place.line < len(lines) and not lines[place.line].startswith(" "):
            doubled = [*lines[: place.line], lines[place.line - 1], *lines[place.line :]]
            yield "\n".join(doubled), ("duplicate-key", place.line + 1, 1)


def value_at(document: Document, path: tuple[str | int, ...]) -> object:
    value = document.value
    for step in path:
        value = value[step]
    return value


MUTATIONS: dict[str, Callable[[Document], Iterator[tuple[str, Place]]]] = {
    "next": value_mutations("next", "no_such_node", "unknown-node"),
    "on_true": value_mutations("on_true", "no_such_node", "unknown-node"),
    "depends_on": value_mutations("depends_on", "no_such_node", "unknown-node"),
    "handler": value_mutations("handler", "no_such_handler", "unknown-handler"),
    "type": value_mutations("type", "no_such_type", "bad-value"),
    "workflow": value_mutations("workflow", "no_such_workflow", "unknown-workflow"),
    "queue": value_mutations("queue", "no_such_queue", "unknown-queue"),
    "timeout_seconds": value_mutations("timeout_seconds", "0", "bad-timeout"),
    "timeout as text": value_mutations("timeout_seconds", "soon", "bad-timeout"),
    "tolerated_failures": value_mutations("tolerated_failures", "many", "bad-tolerance"),
    "aggregation": value_mutations("aggregation", "no_such_thing", "bad-value"),
    "max_concurrency": value_mutations("max_concurrency", "0", "bad-value"),
    "handler as a list": value_mutations("handler", "[echo]", "wrong-type"),
    "an anchor": value_mutations("handler", "&x echo", "yaml-unsafe"),
    "a tag": value_mutations("handler", "!x echo", "yaml-unsafe"),
    "fields": renamed_fields,
    "inputs": unknown_inputs,
    "doubled": doubled_lines,
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_planted_fault_is_reported_at_its_place(name: str) -> None:
    planted = 0
    for path in VALID:
        document = read(path.read_text(), path.name)
        for text, place in MUTATIONS[name](document):
            faults = compile_text(text, path.name, registry(), SIBLINGS).faults
            assert place in [_place(fault) for fault in faults], f"{path.name}:\n{text}"
            planted += 1
    assert planted > 0


def test_many_faults_are_planted() -> None:
    documents = [read(path.read_text(), path.name) for path in VALID]
    assert sum(1 for mutate in MUTATIONS.values() for document in documents for _ in mutate(document)) >= 500


def _place(fault: Fault) -> Place:
    return fault.code, fault.line, fault.column
