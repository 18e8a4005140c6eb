"""Regular expressions in bounded time: the patterns of inputs are matched without backtracking.

Python's `re` can take exponential time (`(a?){30}a{30}`), and a pattern meets text that partners write. Here a pattern
is walked with the set of all places where a match may stand, so the time is at most pattern times text. What cannot be
matched this way (back references, look-around, flags) is refused when the workflow is compiled.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

Places = frozenset[int]
Step = Callable[[str, Places], Places]  # from the places where a part may begin to those where it may end

MAX_TEXT = 10_000
MAX_ROUNDS = 10_000
_UNICODE_ONLY = int(re.UNICODE)


class BadPattern(ValueError):
    """The text is no regular expression, or one that this module does not match."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Step:
    """The pattern as a step; raises BadPattern."""
    try:
        parsed = _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPattern(str(error)) from None
    if parsed.state.flags & ~_UNICODE_ONLY:
        raise BadPattern("flags such as (?i) are not supported")
    return _sequence(parsed, MAX_ROUNDS)


def found_in(pattern: str, text: str) -> bool:
    """Whether the pattern is found anywhere in the text. Of very long text only the beginning is looked at."""
    shown = text[:MAX_TEXT]
    return bool(compile_pattern(pattern)(shown, frozenset(range(len(shown) + 1))))


def _sequence(parts: Iterable[tuple[Any, Any]], rounds: int) -> Step:
    steps = [_part(operation, argument, rounds) for operation, argument in parts]

    def step(text: str, places: Places) -> Places:
        for each in steps:
            places = each(text, places)
        return places

    return step


def _part(operation: Any, argument: Any, rounds: int) -> Step:
    if operation is _constants.AT:
        return _anchor(argument)
    if operation is _constants.BRANCH:
        return _branch([_sequence(option, rounds) for option in argument[1]])
    if operation is _constants.SUBPATTERN and not argument[1] and not argument[2]:
        return _sequence(argument[3], rounds)
    if operation in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
        least, most, inner = argument
        return _repeat(least, most, inner, rounds)
    if operation in (_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN):
        return _character(operation, argument)
    raise BadPattern(f"{str(operation).lower().replace('_', ' ')} is not supported")


def _anchor(kind: Any) -> Step:
    """An anchor lets through the places that it holds at. `$` also holds before a newline that ends the text."""
    if kind in (_constants.AT_BEGINNING, _constants.AT_BEGINNING_STRING):
        return lambda _, places: places & {0}
    if kind is _constants.AT_END:
        return lambda text, places: places & {len(text), len(text) - text.endswith("\n")}
    if kind is _constants.AT_END_STRING:
        return lambda text, places: places & {len(text)}
    raise BadPattern(f"{str(kind).lower().replace('_', ' ')} is not supported")


def _branch(options: list[Step]) -> Step:
    return lambda text, places: frozenset().union(*(option(text, places) for option in options))


def _repeat(least: int, most: Any, inner: Any, rounds: int) -> Step:
    """Rounds that must be walked are limited, repeats in repeats included; the others end when nothing new is found."""
    if least > rounds:
        raise BadPattern(f"repeats of more than {MAX_ROUNDS} are not supported")
    step = _sequence(inner, rounds // max(least, 1))
    optional = MAX_TEXT if most is _constants.MAXREPEAT else min(most - least, MAX_TEXT)

    def repeated(text: str, places: Places) -> Places:
        for _ in range(least):
            places = step(text, places)
        reached, fresh = places, places
        for _ in range(optional):
            fresh = step(text, fresh) - reached
            if not fresh:
                break
            reached |= fresh
        return reached

    return repeated


def _character(operation: Any, argument: Any) -> Step:
    """Return the step of one character; `re` judges which characters fit, by a pattern one character long."""
    matches = re.compile(_rebuilt(operation, argument)).fullmatch
    fits = lru_cache(maxsize=4096)(lambda character: matches(character) is not None)

    def step(text: str, places: Places) -> Places:
        return frozenset(place + 1 for place in places if place < len(text) and fits(text[place]))

    return step


_CATEGORIES = {
    _constants.CATEGORY_DIGIT: r"\d",
    _constants.CATEGORY_NOT_DIGIT: r"\D",
    _constants.CATEGORY_SPACE: r"\s",
    _constants.CATEGORY_NOT_SPACE: r"\S",
    _constants.CATEGORY_WORD: r"\w",
    _constants.CATEGORY_NOT_WORD: r"\W",
}


def _rebuilt(operation: Any, argument: Any) -> str:
    """The text of a pattern for one character, from its parsed form."""
    if operation is _constants.ANY:
        return "."
    if operation is _constants.LITERAL:
        return re.escape(chr(argument))
    if operation is _constants.NOT_LITERAL:
        return f"[^{re.escape(chr(argument))}]"
    return "[" + "".join(_member(kind, value) for kind, value in argument) + "]"


def _member(kind: Any, value: Any) -> str:
    """One member of a character class."""
    if kind is _constants.NEGATE:
        return "^"
    if kind is _constants.LITERAL:
        return re.escape(chr(value))
    if kind is _constants.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    return _CATEGORIES[value]
