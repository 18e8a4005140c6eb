"""The closed Jinja2 environment of templates: values in, values out, nothing of Python within reach.

Attribute access means looking a key up in a mapping, never reading a Python attribute, so there is no way from a
value to its class. Operators that can make much out of little are bounded before they run.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import StrictUndefined, Undefined
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from flows.compiler.filters import FILTERS, ResultTooLarge, bounded

# Tests that need no Python object behind the value.
_TEST_NAMES = (
    "boolean defined divisibleby even eq equalto false float ge gt in integer iterable le lower lt mapping ne none "
    "number odd sequence string true undefined upper"
)
TESTS = frozenset(_TEST_NAMES.split())
_MAX_BITS = 4096


class Missing(StrictUndefined):
    """A value that is not there. Going further down from it is no error yet, so that one `default` covers a path."""

    __slots__ = ()


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment in which all templates and conditions are parsed and evaluated."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(undefined=Missing, autoescape=False, keep_trailing_newline=True)
        self.globals = {}
        self.filters = dict(FILTERS)
        self.tests = {name: test for name, test in self.tests.items() if name in TESTS}

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self._look_up(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return self._look_up(obj, argument)

    def _look_up(self, obj: Any, key: Any) -> Any:
        if isinstance(obj, Undefined):
            return obj
        by_key = isinstance(obj, Mapping) and isinstance(key, str)
        by_index = isinstance(obj, list | tuple | str) and isinstance(key, int)
        if by_key or by_index:
            try:
                return obj[key]
            except LookupError:
                pass
        return Missing(hint=f"there is no value {str(key)[:80]!r} here")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return _BOUNDED[operator](left, right)


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        bounded(len(left) + len(right))
    return left + right


def _multiply(left: Any, right: Any) -> Any:
    for repeated, times in ((left, right), (right, left)):
        if isinstance(repeated, str | list | tuple) and isinstance(times, int):
            bounded(len(repeated) * times)
    _refuse_large_integers(_bits(left) + _bits(right))
    return left * right


def _power(left: Any, right: Any) -> Any:
    _refuse_large_integers(_bits(left) * abs(right) if isinstance(right, int) else 0)
    return left**right


def _modulo(left: Any, right: Any) -> Any:
    if isinstance(left, str):
        raise TypeError("text is not formatted with %; put values together with ~")
    return left % right


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _refuse_large_integers(bits: int) -> None:
    if bits > _MAX_BITS:
        raise ResultTooLarge(f"the result would be a number of {bits} bits, more than {_MAX_BITS}")


_BOUNDED: Mapping[str, Callable[[Any, Any], Any]] = {"+": _add, "*": _multiply, "**": _power, "%": _modulo}
