"""Text in, a document out whose every key and value knows its place. Knows YAML, knows nothing of workflows.

The reader works on libyaml's events and stops at the first thing that could be used against it: aliases (an alias
bomb is one line), tags (`!!python/object`), deep nesting, large files. None of these has a use in a workflow.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.cyaml import CParser  # type: ignore[attr-defined]

from flows.compiler.faults import Fault, FilePosition, Path, by_place, excerpt, pointer
from flows.compiler.scalars import NotANumber, resolve

MAX_BYTES = 256 * 1024
MAX_DEPTH = 20
# The characters that YAML does not take, written or not.
_REFUSED = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")

Json = Any  # str | int | float | bool | None | list[Json] | dict[str, Json]


@dataclass
class Document:
    """A parsed file: the value, and where each key and value stands, by path."""

    file: str
    text: str
    value: Json = None
    keys: dict[Path, FilePosition] = field(default_factory=dict)
    values: dict[Path, FilePosition] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    readable: bool = True

    def at_value(self, path: Path, code: str, message: str, hint: str = "") -> Fault:
        """A fault at the value of the path, or of its nearest ancestor that was written."""
        return self.at_place(self.value_place(path), path, code, message, hint)

    def at_key(self, path: Path, code: str, message: str, hint: str = "") -> Fault:
        """A fault at the key of the path: of the whole file its first line; of an element of a list its value."""
        place = self.keys.get(path) or (self.value_place(path) if path else FilePosition())
        return self.at_place(place, path, code, message, hint)

    def value_place(self, path: Path) -> FilePosition:
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, FilePosition())

    def at_place(self, place: FilePosition, path: Path, code: str, message: str, hint: str) -> Fault:
        return Fault(self.file, place.line, place.column, code, message, pointer(path), hint)


class _Refused(Exception):
    """Reading stopped at one fault that makes all others guesswork."""

    def __init__(self, place: FilePosition, path: Path, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.place, self.path, self.code, self.message, self.hint = place, path, code, message, hint


def read(text: str, file: str) -> Document:
    """Read the text. The document's `readable` is false where its faults leave nothing to check further."""
    document = Document(file, text)
    try:
        _refuse_large(text)
        document.value = _Reader(document, _events(text)).read()
    except _Refused as refused:
        # What was found before the reading stopped would only distract from the fault that stopped it.
        document.faults = [document.at_place(refused.place, refused.path, refused.code, refused.message, refused.hint)]
        document.readable = False
    document.faults.sort(key=by_place)
    return document


def read_bytes(data: bytes, file: str) -> Document:
    """Read a file's bytes, which are UTF-8, with or without a byte order mark."""
    if len(data) > MAX_BYTES:
        return read(data.decode("utf-8", "replace"), file)
    try:
        return read(data.decode("utf-8-sig"), file)
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig")
        document = Document(file, before, readable=False)
        place = _place_of_offset(before, len(before))
        message, hint = "the file is not UTF-8 here", "save the file as UTF-8"
        document.faults.append(document.at_place(place, (), "yaml-syntax", message, hint))
        return document


def _refuse_large(text: str) -> None:
    too_long = len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES
    if too_long:
        raise _Refused(
            FilePosition(),
            (),
            "yaml-unsafe",
            f"the file is larger than {MAX_BYTES // 1024} kB",
            "split it: a stretch of nodes can be a sub-workflow of its own",
        )


def _events(text: str) -> Iterator[Any]:
    """The parser's events; its complaints become one refusal with a place."""
    try:
        parser = CParser(text)
        while not isinstance(event := parser.get_event(), yaml.StreamEndEvent):
            yield event
    except UnicodeEncodeError as error:
        raise _Refused(
            _place_of_offset(text, error.start), (), "yaml-syntax", "the text holds half of a surrogate pair"
        ) from None
    except yaml.reader.ReaderError as error:
        message = f"the text holds a character YAML refuses: {error.reason}"
        raise _Refused(_first_refused_character(text), (), "yaml-syntax", message) from None
    except yaml.MarkedYAMLError as error:
        raise _syntax_fault(error, text) from None


def _syntax_fault(error: yaml.MarkedYAMLError, text: str) -> _Refused:
    mark = error.problem_mark or error.context_mark
    place = FilePosition(mark.line + 1, mark.column + 1) if mark else FilePosition()
    told = ", ".join(part for part in (error.context, error.problem) if part)
    line = text.split("\n")[place.line - 1 : place.line]
    hint = (
        "put the whole value in one pair of quotes"
        if "{{" in "".join(line)
        else "check indentation, quotes and brackets"
    )
    return _Refused(place, (), "yaml-syntax", f"not YAML: {told}", hint)


def _place_of_offset(text: str, offset: int) -> FilePosition:
    before = text[:offset]
    return FilePosition(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


def _first_refused_character(text: str) -> FilePosition:
    found = _REFUSED.search(text)
    return _place_of_offset(text, found.start() if found else 0)


class _Reader:
    """Builds the document's value from events, remembering places. Recursion ends at MAX_DEPTH."""

    def __init__(self, document: Document, events: Iterator[Any]) -> None:
        self.document = document
        self.events = events
        self.keys = document.keys
        self.values = document.values

    def read(self) -> Json:
        """The one document of the stream; None where there is none."""
        value: Json = None
        documents = 0
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _refusal(event, (), "yaml-syntax", "a file holds one document", "put the second in another")
                value = self._node(next(self.events), (), 1)
        return value

    def _node(self, event: Any, path: Path, depth: int) -> Json:
        if type(event) is yaml.AliasEvent or event.anchor is not None:
            raise _refusal(event, path, "yaml-unsafe", "anchors and aliases are refused", "write the value out instead")
        if event.tag is not None:
            raise _refusal(event, path, "yaml-unsafe", f"the tag {_tag(event.tag)} is refused", "leave the tag out")
        self.values[path] = _place(event)
        if type(event) is yaml.ScalarEvent:
            return self._scalar(event, path)
        if depth > MAX_DEPTH:
            raise _refusal(event, path, "yaml-unsafe", f"nested deeper than {MAX_DEPTH} levels", "flatten the value")
        return self._mapping(path, depth) if type(event) is yaml.MappingStartEvent else self._sequence(path, depth)

    def _scalar(self, event: Any, path: Path) -> Json:
        if not event.implicit[0]:  # quoted or a block: a string, whatever it looks like
            return event.value
        try:
            return resolve(event.value)
        except NotANumber:
            message = f"{excerpt(event.value)} is a number that JSON cannot carry"
            place = self.values[path]
            fault = self.document.at_place(place, path, "bad-value", message, "quote it if it is meant as text")
            self.document.faults.append(fault)
            return event.value

    def _sequence(self, path: Path, depth: int) -> list[Json]:
        elements: list[Json] = []
        while type(event := next(self.events)) is not yaml.SequenceEndEvent:
            elements.append(self._node(event, (*path, len(elements)), depth + 1))
        return elements

    def _mapping(self, path: Path, depth: int) -> dict[str, Json]:
        members: dict[str, Json] = {}
        while type(event := next(self.events)) is not yaml.MappingEndEvent:
            key = self._key(event, path)
            inner = (*path, key)
            if key in members:
                self._duplicate(event, inner, depth)
                continue
            self.keys[inner] = _place(event)
            members[key] = self._node(next(self.events), inner, depth + 1)
        return members

    def _key(self, event: Any, path: Path) -> str:
        if type(event) is yaml.ScalarEvent and event.anchor is None and event.tag is None:
            return str(event.value)
        if type(event) is yaml.ScalarEvent or type(event) is yaml.AliasEvent or event.anchor or event.tag:
            raise _refusal(event, path, "yaml-unsafe", "a key takes no anchor, alias or tag", "write the key out")
        place = self.values[path]
        follows_at_once = _place(event) == (place.line, place.column + 1)
        if type(event) is yaml.MappingStartEvent and follows_at_once:
            message, hint = "a template that is not quoted reads as a mapping", 'quote it: "{{ … }}"'
            raise _Refused(place, path, "yaml-syntax", message, hint)
        raise _refusal(event, path, "yaml-syntax", "a key is text, never a mapping or a list", "quote the key")

    def _duplicate(self, event: Any, path: Path, depth: int) -> None:
        """Report the second key and read past its value, so that the first keeps its place."""
        first = self.keys[path]
        message = f"{excerpt(path[-1])} is already given in line {first.line}"
        self.document.faults.append(
            self.document.at_place(_place(event), path, "duplicate-key", message, "keep one of the two")
        )
        self.keys, self.values = {}, {}
        try:
            self._node(next(self.events), path, depth + 1)
        finally:
            self.keys, self.values = self.document.keys, self.document.values


def _place(event: Any) -> FilePosition:
    mark = event.start_mark
    return FilePosition(mark.line + 1, mark.column + 1)


def _tag(tag: str) -> str:
    """The tag as it is usually written."""
    return excerpt(tag.replace("tag:yaml.org,2002:", "!!"))


def _refusal(event: Any, path: Path, code: str, message: str, hint: str) -> _Refused:
    return _Refused(_place(event), path, code, message, hint)
