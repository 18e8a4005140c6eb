"""Where a run's products lie, and which of what it hands in cannot be its own. Pure.

Every blob that a run makes is named after the revision it makes, or after the run itself where there is none, and after
its attempt: by ids that we have given, so that nothing is overwritten and nobody's words decide.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from domain.contracts.artifacts import Artifact
from domain.contracts.names import is_inside
from domain.contracts.runs import RunFacts, RunProblem
from flows.handlers.errors import ForeignProduct

QUARANTINE: Final = "quarantine/"  # in bronze, before the names of what runs have fetched
_RUN: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ASSET: Final = r"[0-9a-f]{32}"
_REVISION: Final = rf"{_ASSET}/[0-9]{{1,9}}-r[0-9]{{1,9}}"
_COPIES: Final = rf"{_REVISION}/[0-9a-f]{{32}}"
# How names of what some run has made or fetched begin, wherever they stand.
_MADE: Final = re.compile(rf"(?:{QUARANTINE})?(?:assets/{_ASSET}|runs/{_RUN})/")
_OF_REVISION: Final = re.compile(rf"assets/({_REVISION})/a[0-9]+/.")
_OF_RUN: Final = re.compile(rf"runs/({_RUN})/a[0-9]+/.")
_OF_MEMORY: Final = re.compile(rf"(?:trials/)?({_RUN})/.")
_OF_COPIES: Final = re.compile(rf"({_COPIES})/.")
_OF_NOTES: Final = re.compile(rf"(?:withdrawn|pipeline-runs)/({_COPIES})\Z")
_ATTEMPT: Final = re.compile(r"/a([1-9][0-9]{0,8})/.")
_GENERATION: Final = re.compile(r"/m([1-9][0-9]{0,8})/.")


def home(facts: RunFacts) -> str:
    """The folder of all that is made for this revision, or by this run where it makes none."""
    if facts.asset_id is None:
        return run_home(facts.id)
    return revision_home(facts.asset_id, facts.version_ordinal, facts.revision)


def run_home(run_id: UUID | str) -> str:
    """The folder of all that a run makes which makes no revision."""
    return f"runs/{run_id}"


def asset_home(asset_id: str) -> str:
    """The folder of all that is made for any revision of an asset."""
    return f"assets/{asset_id}"


def revision_home(asset_id: str, ordinal: int | None, revision: int | None) -> str:
    """The folder of all that is made for a revision."""
    return f"{asset_home(asset_id)}/{ordinal}-r{revision}"


def output_prefix(facts: RunFacts) -> str:
    """The folder in it that belongs to the attempt."""
    return attempt_folder(home(facts), facts.attempt)


def attempt_folder(folder: str, attempt: int) -> str:
    """What belongs to this attempt of all that a folder is for."""
    return f"{folder}/a{attempt}"


def memory_folder(run_id: UUID | str, generation: int) -> str:
    """Where, in run storage, a generation of a run's memory lies."""
    return f"{run_id}/m{generation}"


def copies_folder(asset_id: str, ordinal: int, revision: int, mark: str) -> str:
    """Where, in the external zone, one export's copies of a revision lie."""
    return f"{asset_id}/{ordinal}-r{revision}/{mark}"


def withdrawal_note(copies: str) -> str:
    """In run storage: what says that nothing may be in this folder of copies any more."""
    return f"withdrawn/{copies}"


def pipeline_note(copies: str) -> str:
    """In run storage: what names the pipeline run that fills this folder of copies."""
    return f"pipeline-runs/{copies}"


def attempt_in(folder: str, name: str) -> int | None:
    """The attempt that the file belongs to of all that the folder is for; None where it is none's."""
    return _number(_ATTEMPT, folder, name)


def generation_in(run_id: str, name: str) -> int | None:
    """The generation of the run's memory that the file belongs to; None where it is none's."""
    return _number(_GENERATION, run_id, name)


def revision_of(name: str) -> str | None:
    """The revision, as `asset/ordinal-rN`, for which an attempt made the file."""
    return _first(_OF_REVISION, name)


def run_of(name: str) -> str | None:
    """The run an attempt of which made the file, where it makes no revision."""
    return _first(_OF_RUN, name)


def rememberer_of(name: str) -> str | None:
    """The run that keeps this file of run storage for itself."""
    return _first(_OF_MEMORY, name)


def copies_of(name: str) -> str | None:
    """The folder of an export's copies that this file of the external zone is in."""
    return _first(_OF_COPIES, name)


def noted_copies_of(name: str) -> str | None:
    """The folder of an export's copies that this file of run storage is a note about."""
    return _first(_OF_NOTES, name)


def foreign_artifact(artifacts: Iterable[Artifact], home: str, copies: str | None) -> RunProblem | None:
    """Return why artifacts are refused: a file is not the run's. `copies` is the folder given to an export."""
    for artifact in artifacts:
        folder = copies if artifact.zone == "external" else home
        if artifact.zone == "bronze" or folder is None or not is_inside(artifact.name, folder):
            own = f"silver/{home}" + (f" or external/{copies}" if copies else "")
            return RunProblem(
                code=ForeignProduct.code,
                message=f"The run handed in {artifact.zone}/{artifact.name[:300]} as its own {artifact.role}; what "
                f"it makes lies below {own}. Nothing of it was taken: look into the run before it runs again.",
            )
    return None


def foreign_output(outputs: Mapping[str, Any], home: str) -> RunProblem | None:
    """Return why outputs are refused: one names another run's product, which later steps would read or publish."""
    for place, text in _texts(outputs, "outputs"):
        if _MADE.match(text) and not is_inside(text.removeprefix(QUARANTINE), home):
            return RunProblem(
                code=ForeignProduct.code,
                message=f"The run handed in {text[:300]} as {place[:100]}; what it makes lies below {home}. Nothing "
                "of it was taken: look into the run before it runs again.",
            )
    return None


def _number(pattern: re.Pattern[str], folder: str, name: str) -> int | None:
    match = pattern.match(name, len(folder)) if name.startswith(folder) else None
    return int(match[1]) if match else None


def _first(pattern: re.Pattern[str], name: str) -> str | None:
    match = pattern.match(name)
    return match[1] if match else None


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Every text of a JSON value, and where it stands."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _texts(each, f"{place}.{name}")
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each, place)
