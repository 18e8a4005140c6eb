"""Which fields a declared result has, step by step along a path. Knows pydantic models and type hints, no handlers."""

import types
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

Record = dict[str, Any]  # fields that the language itself declares, by name
Hint = Any  # a type hint, a Record, or Any where nothing is known


class NoSuchField(LookupError):
    """The declared result lacks the field. `known` are those it has."""

    def __init__(self, step: str | int, known: tuple[str, ...]) -> None:
        super().__init__(step)
        self.step, self.known = step, known


def follow(hint: Hint, steps: tuple[str | int, ...]) -> Hint:
    """The type at the end of the path; raises NoSuchField at the first step that the declaration lacks."""
    for step in steps:
        hint = _descend_record(hint, step) if isinstance(hint, dict) else _descend(hint, step)
    return hint


def element_of(hint: Hint) -> Hint:
    """The type of a list's elements, Any where it is not known to be a list."""
    try:
        return Any if isinstance(hint, dict) else _descend(hint, 0)
    except NoSuchField:
        return Any


def _descend_record(record: Record, step: str | int) -> Hint:
    if step in record:
        return record[str(step)]
    raise NoSuchField(step, tuple(record))


@lru_cache(maxsize=4096)
def _descend(hint: Hint, step: str | int) -> Hint:
    origin: Any = get_origin(hint)
    arguments: tuple[Any, ...] = get_args(hint)
    if origin is Annotated:
        return _descend(arguments[0], step)
    if origin in (Union, types.UnionType):
        return _descend_union(arguments, step)
    kind = origin or hint
    return _descend_class(kind, arguments, step) if isinstance(kind, type) else Any


def _descend_class(kind: type, arguments: tuple[Hint, ...], step: str | int) -> Hint:
    if issubclass(kind, BaseModel):
        return _descend_model(kind, step)
    if issubclass(kind, Mapping):
        return arguments[1] if arguments else Any
    if issubclass(kind, str | int | float | bool | None | bytes):
        return _descend_scalar(kind, step)
    if issubclass(kind, Sequence):
        return _descend_sequence(arguments, step)
    return Any


def _descend_union(members: tuple[Hint, ...], step: str | int) -> Hint:
    """Return the field if any member has it; a refusal names the fields of all members."""
    known: list[str] = []
    for member in members:
        try:
            return _descend(member, step)
        except NoSuchField as lacking:
            known += lacking.known
    raise NoSuchField(step, tuple(known))


def _descend_model(model: type[BaseModel], step: str | int) -> Hint:
    if step in model.model_fields:
        return model.model_fields[str(step)].annotation
    if model.model_config.get("extra") == "allow":
        return Any
    raise NoSuchField(step, tuple(model.model_fields))


def _descend_scalar(kind: type, step: str | int) -> Hint:
    if issubclass(kind, str) and isinstance(step, int):
        return str
    raise NoSuchField(step, ())


def _descend_sequence(arguments: tuple[Hint, ...], step: str | int) -> Hint:
    if isinstance(step, str):
        raise NoSuchField(step, ())
    if not arguments:
        return Any
    if len(arguments) > 1 and arguments[1] is not Ellipsis:
        return arguments[step] if -len(arguments) <= step < len(arguments) else Any
    return arguments[0]
