"""Kinds of values in a document: what is accepted, what is said when it is not, and the JSON Schema of it.

The language's tables are made of kinds; the shape check, the editor schema and the reference all read the tables.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from flows.compiler.faults import did_you_mean, excerpt

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
NAME_LAW = "letters, digits and _, a letter first, at most 63 in all"

# Says what is wrong with a value of the right type: message and hint, or None. A message may start with `must`, as a
# clause that follows the name of the field.
Law = Callable[[Any], tuple[str, str] | None]


@dataclass(frozen=True)
class Kind:
    """What a value must be. `wrong_code` is said of a wrong type, `bad_code` of a wrong value of the right type."""

    article: str
    types: tuple[type, ...]
    schema: Mapping[str, Any]
    law: Law | None = None
    wrong_code: str = "wrong-type"
    bad_code: str = "bad-value"
    hint: str = ""
    fields: "Mapping[str, Field] | None" = None  # of a mapping whose keys are given
    element: "Kind | None" = None  # of a list, or of a mapping whose keys are names
    alternatives: "tuple[Kind, ...]" = ()  # the first whose type fits checks the value

    def takes(self, value: Any) -> bool:
        """Whether the value's type is right. A boolean is no number here."""
        if self.alternatives:
            return any(kind.takes(value) for kind in self.alternatives)
        if isinstance(value, bool):
            return bool in self.types or object in self.types
        return isinstance(value, self.types)

    def json_schema(self) -> dict[str, Any]:
        if self.alternatives:
            return {"anyOf": [kind.json_schema() for kind in self.alternatives]}
        schema = dict(self.schema)
        if self.fields is not None:
            schema |= fields_schema(self.fields)
        if self.element is not None and list in self.types:
            schema["items"] = self.element.json_schema()
        if self.element is not None and dict in self.types:
            schema["patternProperties"] = {f"^{NAME.pattern}$": self.element.json_schema()}
            schema["additionalProperties"] = False
        return schema


@dataclass(frozen=True)
class Field:
    """One field of a mapping."""

    kind: Kind
    description: str
    required: bool = False


Fields = Mapping[str, Field]


def fields_schema(table: Fields) -> dict[str, Any]:
    """The JSON Schema of a mapping with these fields."""
    required = [name for name, entry in table.items() if entry.required]
    properties = {name: entry.kind.json_schema() | {"description": entry.description} for name, entry in table.items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": required} if required else {})


# --- makers ---


def text(article: str = "text", pattern: str = "", **options: Any) -> Kind:
    """Text, perhaps of a pattern."""
    schema = {"type": "string"} | ({"pattern": f"^{pattern}$"} if pattern else {})
    return Kind(article, (str,), schema, **options)


def one_of(values: tuple[str, ...], what: str, code: str = "bad-value", wrong: str = "wrong-type") -> Kind:
    """Return the kind of a value that is one of a few words."""

    def law(value: str) -> tuple[str, str] | None:
        if value in values:
            return None
        return f"{excerpt(value)} is not {what}", did_you_mean(value, values, f"write one of {', '.join(values)}")

    schema = {"type": "string", "enum": list(values)}
    return Kind(f"one of {', '.join(values)}", (str,), schema, law, wrong_code=wrong, bad_code=code)


def number(
    article: str,
    *,
    above: float | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    whole: bool = False,
    code: str = "",
) -> Kind:
    """A number in bounds. With a code of its own, that code is said of anything wrong with it."""

    def law(value: float) -> tuple[str, str] | None:
        too_low = (above is not None and value <= above) or (minimum is not None and value < minimum)
        if too_low or (maximum is not None and value > maximum) or not isfinite(value):
            return f"must be {article}, not {excerpt(value)}", f"write {article}"
        return None

    bounds = {"exclusiveMinimum": above, "minimum": minimum, "maximum": maximum}
    written = {key: bound for key, bound in bounds.items() if bound is not None}
    schema = {"type": "integer" if whole else "number", **written}
    kind = Kind(article, (int,) if whole else (int, float), schema, law)
    return with_code(kind, code) if code else kind


def list_of(element: Kind, article: str, *, code: str = "", not_empty: bool = False) -> Kind:
    """A list of one kind."""

    def law(value: list[Any]) -> tuple[str, str] | None:
        return None if value or not not_empty else ("the list is empty", f"write {article} with at least one element")

    kind = Kind(article, (list,), {"type": "array", **({"minItems": 1} if not_empty else {})}, law, element=element)
    return with_code(kind, code) if code else kind


def mapping(fields: Fields, article: str, code: str = "wrong-type", hint: str = "") -> Kind:
    """A mapping whose keys the language knows."""
    return Kind(article, (dict,), {"type": "object"}, fields=fields, wrong_code=code, hint=hint)


def named(element: Kind, article: str) -> Kind:
    """A mapping from names that the author chooses."""
    return Kind(article, (dict,), {"type": "object"}, element=element)


def either(article: str, *alternatives: Kind, code: str = "wrong-type", hint: str = "") -> Kind:
    """The first of several kinds whose type fits."""
    return Kind(article, (), {}, alternatives=alternatives, wrong_code=code, hint=hint)


def with_code(kind: Kind, code: str) -> Kind:
    """The kind with one code for everything that is wrong with it."""
    return replace(kind, wrong_code=code, bad_code=code)


ANYTHING = Kind("anything", (object,), {})
BOOLEAN = Kind("true or false", (bool,), {"type": "boolean"})
TEXT = text()
OPEN_MAPPING = Kind("a mapping", (dict,), {"type": "object"})
