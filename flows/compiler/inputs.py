"""The inputs of a workflow: their types and bounds, the JSON Schema they make, and the check of what was given.

One declaration serves the form, the check at submission and the API. Knows nothing of files or nodes.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime
from math import isfinite
from typing import Any, TypeGuard
from urllib.parse import urlsplit

from flows.compiler.faults import did_you_mean, excerpt
from flows.compiler.patterns import found_in

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATETIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?([Zz]|[-+]\d{2}:\d{2})")


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | float) and _is_number(value) and float(value).is_integer()


def _is_date(value: Any) -> bool:
    return isinstance(value, str) and _DATE.fullmatch(value) is not None and _parses(date.fromisoformat, value)


def _is_datetime(value: Any) -> bool:
    return isinstance(value, str) and _DATETIME.fullmatch(value) is not None and _parses(datetime.fromisoformat, value)


def _parses(parse: Callable[[str], object], value: str) -> bool:
    try:
        parse(value.upper())
    except ValueError:
        return False
    return True


def _is_bbox(value: Any) -> bool:
    if not isinstance(value, list | tuple) or len(value) not in (4, 6) or not all(map(_is_number, value)):
        return False
    half = len(value) // 2
    south, north, west, east = float(value[1]), float(value[half + 1]), float(value[0]), float(value[half])
    return -90 <= south <= north <= 90 and abs(west) <= 180 and abs(east) <= 180


def _is_uri(value: Any) -> bool:
    if not isinstance(value, str) or any(character.isspace() for character in value):
        return False
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path))


@dataclass(frozen=True)
class InputType:
    """One type of input: how it is called in a message, in JSON Schema, and how it is recognised."""

    article: str
    schema: Mapping[str, Any]
    accepts: Callable[[Any], bool]


TYPES: Mapping[str, InputType] = {
    "string": InputType("text", {"type": "string"}, lambda value: isinstance(value, str)),
    "integer": InputType("a whole number", {"type": "integer"}, _is_integer),
    "number": InputType("a number", {"type": "number"}, _is_number),
    "boolean": InputType("true or false", {"type": "boolean"}, lambda value: isinstance(value, bool)),
    "array": InputType("a list", {"type": "array"}, lambda value: isinstance(value, list | tuple)),
    "object": InputType("a mapping", {"type": "object"}, lambda value: isinstance(value, Mapping)),
    "date": InputType("a date such as 2026-02-28", {"type": "string", "format": "date"}, _is_date),
    "datetime": InputType(
        "a time with its zone, such as 2026-02-28T12:00:00Z", {"type": "string", "format": "date-time"}, _is_datetime
    ),
    "bbox": InputType(
        "four numbers: west, south, east, north in degrees",
        {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 6},
        _is_bbox,
    ),
    "uri": InputType("a URI such as https://example.org/file", {"type": "string", "format": "uri"}, _is_uri),
}

# Which bounds say something about which types.
NUMERIC = ("integer", "number")
TEXTUAL = ("string", "uri", "date", "datetime")
BOUNDS: Mapping[str, tuple[str, ...]] = {
    "pattern": TEXTUAL,
    "minimum": NUMERIC,
    "maximum": NUMERIC,
    "min_length": (*TEXTUAL, "array"),
    "max_length": (*TEXTUAL, "array"),
    "items": ("array",),
}


@dataclass(frozen=True)
class Input:
    """One declared input. `default` counts only where `has_default`: null is not a default."""

    name: str
    type: str
    required: bool = False
    has_default: bool = False
    default: Any = None
    enum: tuple[Any, ...] | None = None
    pattern: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    items: Mapping[str, Any] | None = None
    description: str = ""

    @classmethod
    def of(cls, name: str, written: Mapping[str, Any]) -> "Input":
        """The input as written, its shape already checked."""
        known = {field.name for field in fields(cls)} - {"enum", "has_default", "name"}
        options = {key: value for key, value in written.items() if key in known}
        enum = tuple(written["enum"]) if "enum" in written else None
        return cls(name, has_default="default" in written, enum=enum, **options)

    def problems(self, value: Any) -> Iterator[str]:
        """What is wrong with the value, as clauses that follow the input's name."""
        kind = TYPES[self.type]
        if not kind.accepts(value):
            yield f"must be {kind.article}, not {excerpt(value)}"
            return
        if self.enum is not None and value not in self.enum:
            yield f"must be one of {', '.join(map(str, self.enum))}, not {excerpt(value)}"
        yield from self._out_of_bounds(value)
        yield from self._bad_elements(value)

    def _out_of_bounds(self, value: Any) -> Iterator[str]:
        if self.minimum is not None and value < self.minimum:
            yield f"must be at least {self.minimum}, not {value}"
        if self.maximum is not None and value > self.maximum:
            yield f"must be at most {self.maximum}, not {value}"
        if self.min_length is not None and len(value) < self.min_length:
            yield f"must hold at least {self.min_length} {self._units}, not {len(value)}"
        if self.max_length is not None and len(value) > self.max_length:
            yield f"must hold at most {self.max_length} {self._units}, not {len(value)}"
        if self.pattern is not None and not found_in(self.pattern, value):
            yield f"must match {self.pattern}, not {excerpt(value)}"

    def _bad_elements(self, value: Any) -> Iterator[str]:
        if self.items is None:
            return
        element = Input.of(self.name, self.items)
        for index, member in enumerate(value):
            for problem in element.problems(member):
                yield f"element {index} {problem}"

    @property
    def _units(self) -> str:
        return "elements" if self.type == "array" else "characters"

    def schema(self) -> dict[str, Any]:
        """This input's part of the workflow's JSON Schema."""
        schema = dict(TYPES[self.type].schema)
        lengths = ("minItems", "maxItems") if self.type == "array" else ("minLength", "maxLength")
        optional = {
            "enum": list(self.enum) if self.enum is not None else None,
            "pattern": self.pattern,
            "minimum": self.minimum,
            "maximum": self.maximum,
            lengths[0]: self.min_length,
            lengths[1]: self.max_length,
            "items": Input.of(self.name, self.items).schema() if self.items else None,
            "description": self.description or None,
        }
        schema.update({key: value for key, value in optional.items() if value is not None})
        return schema | ({"default": self.default} if self.has_default else {})

    def to_json(self) -> dict[str, Any]:
        """What differs from a bare input, as JSON."""
        bare = Input(self.name, self.type).__dict__
        written = {key: value for key, value in self.__dict__.items() if key in ("name", "type") or value != bare[key]}
        return written | ({"default": self.default} if self.has_default else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Input":
        enum = data.get("enum")
        return cls(**{**data, "enum": None if enum is None else tuple(enum)})


@dataclass(frozen=True)
class InputProblem:
    """One thing that is wrong with what was given. An empty name means the whole."""

    name: str
    message: str


class InputFault(ValueError):
    """What was given does not fit the declared inputs. Carries every problem, not only the first."""

    def __init__(self, problems: tuple[InputProblem, ...]) -> None:
        super().__init__("; ".join(f"{problem.name}: {problem.message}" for problem in problems))
        self.problems = problems


def resolve_inputs(declared: Mapping[str, Input], given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given with defaults filled in; raises InputFault that lists everything wrong with it."""
    problems = [*_unknown(declared, given), *_missing(declared, given)]
    for name in declared.keys() & given.keys():
        problems += (InputProblem(name, problem) for problem in declared[name].problems(given[name]))
    if problems:
        raise InputFault(tuple(sorted(problems, key=lambda problem: problem.name)))
    defaults = {name: item.default for name, item in declared.items() if item.has_default}
    return defaults | dict(given)


def _unknown(declared: Mapping[str, Input], given: Mapping[str, Any]) -> Iterator[InputProblem]:
    for name in given.keys() - declared.keys():
        hint = did_you_mean(str(name), declared, "there are no inputs")
        yield InputProblem(str(name), f"is not an input; {hint}")


def _missing(declared: Mapping[str, Input], given: Mapping[str, Any]) -> Iterator[InputProblem]:
    for name, item in declared.items():
        if item.required and name not in given:
            yield InputProblem(name, f"is required: {TYPES[item.type].article}")


def input_schema(declared: Mapping[str, Input], title: str, description: str = "") -> dict[str, Any]:
    """The JSON Schema of an object of inputs."""
    required = [name for name, item in declared.items() if item.required]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **({"description": description} if description else {}),
        "type": "object",
        "properties": {name: item.schema() for name, item in declared.items()},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }
