"""The shape of a document against the language's tables: fields, types, values. Knows no law beyond one field.

Returns what is well shaped, with the rest left out, so that later checks meet only values they can trust.
"""

from collections.abc import Iterator
from typing import Any

from flows.compiler.faults import Fault, Path, did_you_mean, excerpt, listing
from flows.compiler.kinds import NAME, NAME_LAW, Fields, Kind
from flows.compiler.source import Document

OMITTED: Any = object()  # stands for a value that was too wrong to keep


class ShapeCheck:
    """Collects faults while it cleans values."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.faults: list[Fault] = []

    def value(self, path: Path, value: Any, kind: Kind) -> Any:
        """The value with everything ill-shaped left out, or OMITTED."""
        if not kind.takes(value):
            self._wrong_type(path, value, kind)
            return OMITTED
        for alternative in kind.alternatives:
            if alternative.takes(value):
                return self.value(path, value, alternative)
        trouble = kind.law(value) if kind.law else None
        if trouble:
            message, hint = trouble
            told = f"{_described(path)} {message}" if message.startswith("must ") else message
            self.faults.append(self.document.at_value(path, kind.bad_code, told, hint))
            return OMITTED
        return self._inside(path, value, kind)

    def _inside(self, path: Path, value: Any, kind: Kind) -> Any:
        """The value with its members cleaned."""
        if isinstance(value, list) and kind.element:
            return self._elements(path, value, kind.element)
        if isinstance(value, dict) and kind.element:
            return self._named(path, value, kind.element)
        return self.fields(path, value, kind.fields) if isinstance(value, dict) and kind.fields is not None else value

    def fields(self, path: Path, value: dict[str, Any], table: Fields) -> dict[str, Any]:
        """A mapping's known fields, cleaned; reports unknown and missing ones."""
        clean = {}
        for key, member in value.items():
            if key not in table:
                self._unknown_field(path, key, value, table)
                continue
            kept = self.value((*path, key), member, table[key].kind)
            if kept is not OMITTED:
                clean[key] = kept
        for key, entry in table.items():
            if entry.required and key not in value:
                self.missing(path, key, entry.description)
        return clean

    def missing(self, path: Path, key: str, purpose: str) -> None:
        """Report a missing field at the key of whatever should contain it."""
        message = f"{_described(path)} needs {key!r}"
        hint = f"add {key}: {purpose[0].lower()}{purpose[1:]}"
        self.faults.append(self.document.at_key(containing(path), "missing-field", message, hint))

    def _wrong_type(self, path: Path, value: Any, kind: Kind) -> None:
        message = f"{_described(path)} must be {kind.article}, not {_type_name(value)}"
        self.faults.append(self.document.at_value(path, kind.wrong_code, message, kind.hint or f"write {kind.article}"))

    def _unknown_field(self, path: Path, key: str, value: dict[str, Any], table: Fields) -> None:
        free = [name for name in table if name not in value]
        hint = did_you_mean(key, free, f"fields here: {listing(table, 30)}")
        message = f"{_described(path)} has no field {excerpt(key)}"
        self.faults.append(self.document.at_key((*path, key), "unknown-field", message, hint))

    def _elements(self, path: Path, values: list[Any], kind: Kind) -> list[Any]:
        cleaned = (self.value((*path, index), value, kind) for index, value in enumerate(values))
        return [value for value in cleaned if value is not OMITTED]

    def _named(self, path: Path, members: dict[str, Any], kind: Kind) -> dict[str, Any]:
        clean = {}
        for key, member in members.items():
            self.faults += self.bad_name(path, key)
            kept = self.value((*path, key), member, kind)
            if kept is not OMITTED:
                clean[key] = kept
        return clean

    def bad_name(self, path: Path, key: str) -> Iterator[Fault]:
        """A fault where the key is not a name."""
        if not NAME.fullmatch(key):
            message = f"{excerpt(key)} is not a name"
            yield self.document.at_key((*path, key), "bad-value", message, f"a name is {NAME_LAW}")


def containing(path: Path) -> Path:
    """The node, input, step or top-level field that a path lies in: where something missing is reported."""
    deep = path[:1] in (("nodes",), ("inputs",), ("steps",))
    return path[:2] if deep else path[:1]


def _described(path: Path) -> str:
    """The path as a message names it."""
    if not path:
        return "the file"
    if len(path) == 2 and path[0] in ("nodes", "inputs", "outputs"):
        return f"{str(path[0])[:-1]} {excerpt(path[1])}"
    if isinstance(path[-1], int):
        return f"element {path[-1]} of {excerpt(path[-2])}" if len(path) > 1 else f"element {path[-1]}"
    return excerpt(path[-1])


def _type_name(value: Any) -> str:
    """The value's type in the words of an author."""
    if value is None:
        return "nothing"
    names = {bool: "true or false", str: "text", int: "a number", float: "a number", list: "a list", dict: "a mapping"}
    name = names[type(value)]
    return f"{name} ({excerpt(value)})" if not isinstance(value, list | dict) else name
