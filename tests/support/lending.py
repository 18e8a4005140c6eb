"""What takes long to make and serves tests of several files: made for the first that asks, ended after the last.

Fixtures of a whole session would go on living beside all that comes later, and an idle server takes time from it.
"""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
_lent: dict[str, tuple[Any, ExitStack]] = {}


def lent(name: str, make: Callable[[], AbstractContextManager[T]]) -> T:
    """What the fixture of this name gives. The fixture is a module's: no value of an earlier loan may be remembered."""
    if name not in _lent:
        keep = ExitStack()
        _lent[name] = (keep.enter_context(make()), keep)
    made: T = _lent[name][0]
    return made


def give_back(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After a test: end what the next one does not use. Within a module fixtures are remembered, so it is kept."""
    if nextitem is None or nextitem.path != item.path:
        end_all_but(getattr(nextitem, "fixturenames", ()))


def end_all_but(needed: Collection[str]) -> None:
    """End every loan but those of these names."""
    for name in [name for name in _lent if name not in needed]:
        _, keep = _lent.pop(name)
        keep.close()
