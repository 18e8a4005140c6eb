"""Where a run's products lie, and which of what it hands in cannot be its own. Pure.

Every blob that a run makes is named after the revision it makes, or after the run itself where there is none, and after
its attempt: by ids that we have given, so that nothing is overwritten and nobody's words decide.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from domain.contracts.artifacts import Artifact
from domain.contracts.names import is_inside
from domain.contracts.runs import RunFacts, RunProblem
from flows.handlers.errors import ForeignProduct

# How names of what some run has made or fetched begin, wherever they stand.
_MADE: Final = re.compile(r"(?:quarantine/)?(?:assets/[0-9a-f]{32}|runs/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/")


def home(facts: RunFacts) -> str:
    """The folder of all that is made for this revision, or by this run where it makes none."""
    if facts.asset_id is None:
        return f"runs/{facts.id}"
    return revision_home(facts.asset_id, facts.version_ordinal, facts.revision)


def revision_home(asset_id: str, ordinal: int | None, revision: int | None) -> str:
    """The folder of all that is made for a revision."""
    return f"assets/{asset_id}/{ordinal}-r{revision}"


def output_prefix(facts: RunFacts) -> str:
    """The folder in it that belongs to the attempt."""
    return f"{home(facts)}/a{facts.attempt}"


def foreign_artifact(artifacts: Iterable[Artifact], home: str, copies: str | None) -> RunProblem | None:
    """Why none of this is taken: one of the files is not the run's. `copies` is the folder that an export was given."""
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
    """Why none of this is taken: an output names what another run has made. What follows would read or publish it."""
    for place, text in _texts(outputs, "outputs"):
        if _MADE.match(text) and not is_inside(text.removeprefix("quarantine/"), home):
            return RunProblem(
                code=ForeignProduct.code,
                message=f"The run handed in {text[:300]} as {place[:100]}; what it makes lies below {home}. Nothing "
                "of it was taken: look into the run before it runs again.",
            )
    return None


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
