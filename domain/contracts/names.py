"""Names of blobs in what handlers are given and give back, marked by whose they are.

Whoever takes a result from a process that may have been taken over judges it with `Taken` as the context; whoever wants
to know which blobs parameters name collects them with `Named`. Without either, a name is any text of its length.
"""

from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import AfterValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from flows.handlers.errors import InvalidInput
from flows.storage.protocol import checked_name

LONGEST_NAME: Final = 900
FOREIGN: Final = "foreign-name"


@dataclass(frozen=True)
class Taken:
    """The names that a result may hold: blobs of the run's own folder, and sources that the try was given."""

    home: str
    given: frozenset[str]


@dataclass
class Named:
    """The blob names that were found while a model was made."""

    names: set[str] = field(default_factory=set)


def is_inside(name: str, folder: str) -> bool:
    """Whether the name can only mean a blob below the folder."""
    try:
        return checked_name(name).startswith(f"{folder}/")
    except InvalidInput:
        return False


def foreign(name: str) -> PydanticCustomError:
    """Return the refusal of a name that is not the run's own."""
    return PydanticCustomError(FOREIGN, "{name} is not the run's own", {"name": repr(name[:200])})


def _made(name: str, info: ValidationInfo) -> str:
    if isinstance(info.context, Taken) and not is_inside(name, info.context.home):
        raise foreign(name)
    return _noted(name, info)


def _given(name: str, info: ValidationInfo) -> str:
    if isinstance(info.context, Taken) and name not in info.context.given:
        raise foreign(name)
    return _noted(name, info)


def _noted(name: str, info: ValidationInfo) -> str:
    if isinstance(info.context, Named):
        info.context.names.add(name)
    return name


# A blob that the run has made: a product, its rows, a file beside it.
MadeName = Annotated[str, Field(max_length=LONGEST_NAME), AfterValidator(_made)]
# A blob that the run was given: its source. A result repeats it and makes up none.
GivenName = Annotated[str, Field(max_length=LONGEST_NAME), AfterValidator(_given)]
