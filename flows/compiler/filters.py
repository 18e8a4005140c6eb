"""The filters a template may use: small pure functions whose output is bounded before it is made.

Jinja's own would do, but some can be turned into a bomb (`replace`, `round`, `tojson(indent)`), and `tojson` there
escapes for HTML. Knows nothing of environments or nodes.
"""

import json
import math
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jinja2 import Undefined

MAX_TEXT = 64 * 1024
MAX_ELEMENTS = 1_000_000


class ResultTooLarge(ValueError):
    """A value would outgrow what a template may produce."""


def bounded(size: int, limit: int = MAX_TEXT) -> None:
    """Refuse a result of this size before it exists."""
    if size > limit:
        raise ResultTooLarge(f"the result would hold {size} characters or elements, more than {limit}")


def text(value: object) -> str:
    """The value as text, inside the bound."""
    shown = str(value)
    bounded(len(shown))
    return shown


def default(value: Any, fallback: Any = "", boolean: bool = False) -> Any:
    """The value, or the fallback where it is undefined (or, if asked so, false)."""
    return fallback if isinstance(value, Undefined) or (boolean and not value) else value


def to_integer(value: Any, default: int = 0) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return default


def to_float(value: Any, default: float = 0.0) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return number if math.isfinite(number) else default


def lower(value: Any) -> str:
    return text(value).lower()


def upper(value: Any) -> str:
    return text(value).upper()


def replace(value: Any, old: str, new: str) -> str:
    source = text(value)
    bounded(len(source) + source.count(old) * len(new))
    return source.replace(old, new)


def join(values: Iterable[Any], separator: str = "", attribute: str | None = None) -> str:
    parts = [text(value) for value in pick(values, attribute)]
    bounded(sum(map(len, parts)) + len(separator) * max(len(parts) - 1, 0))
    return separator.join(parts)


def first(values: Sequence[Any]) -> Any:
    return values[0]


def last(values: Sequence[Any]) -> Any:
    return values[-1]


def to_json(value: Any) -> str:
    return text(json.dumps(value, ensure_ascii=False))


def basename(value: Any) -> str:
    return posixpath.basename(text(value))


def dirname(value: Any) -> str:
    return posixpath.dirname(text(value))


def stem(value: Any) -> str:
    return posixpath.splitext(posixpath.basename(text(value)))[0]


def sort(values: Iterable[Any], reverse: bool = False, attribute: str | None = None) -> list[Any]:
    return sorted(values, key=_key(attribute), reverse=reverse)


def unique(values: Iterable[Any], attribute: str | None = None) -> list[Any]:
    """The values without repetitions, in the order they first appear. Works for lists and mappings too."""
    key, first_of = _key(attribute), dict[str, Any]()
    for value in values:
        first_of.setdefault(json.dumps(key(value), sort_keys=True), value)
    return list(first_of.values())


def minimum(values: Iterable[Any], attribute: str | None = None) -> Any:
    return min(values, key=_key(attribute))


def maximum(values: Iterable[Any], attribute: str | None = None) -> Any:
    return max(values, key=_key(attribute))


def total(values: Iterable[Any], attribute: str | None = None, start: float = 0) -> float:
    return sum(pick(values, attribute), start)


def rounded(value: float, precision: int = 0, method: str = "common") -> float:
    """Round to this many decimals: `common`, `ceil` or `floor`."""
    if method == "common":
        return round(value, precision)
    factor = 10.0 ** max(-300, min(precision, 300))
    return {"ceil": math.ceil, "floor": math.floor}[method](value * factor) / factor


def pick(values: Iterable[Any], attribute: str | None) -> list[Any]:
    """The values themselves, or one attribute of each."""
    return list(map(_key(attribute), values))


def _key(attribute: str | None) -> Callable[[Any], Any]:
    if attribute is None:
        return lambda value: value
    return lambda value: value[attribute]


FILTERS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "basename": basename,
    "default": default,
    "dirname": dirname,
    "first": first,
    "float": to_float,
    "int": to_integer,
    "join": join,
    "last": last,
    "length": len,
    "lower": lower,
    "max": maximum,
    "min": minimum,
    "replace": replace,
    "round": rounded,
    "sort": sort,
    "stem": stem,
    "sum": total,
    "tojson": to_json,
    "unique": unique,
    "upper": upper,
}
