"""What of a request's making is left over, and from when on it may be removed. Pure.

Runs name their files after the revision or the run, and after the attempt (`rules.places`), so rows tell where all of
them lie. What is removed belongs to attempts of the past: an attempt that is opened later has a higher number.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from domain.rules.lifecycle import OPEN_REQUESTS, RequestState
from domain.rules.places import QUARANTINE, attempt_in, generation_in, revision_home, run_home
from flows.storage.protocol import is_partial

Place = tuple[str, str]  # a zone, and a folder or a name in it


class Fate(Enum):
    """What may be removed of what a request has made."""

    LEAVE = "it is needed: by who works on it, or by who may run it again from where it ended"
    TIDY = "what no row names goes"
    COLLECT = "all of it goes"


@dataclass(frozen=True)
class Retention:
    """How long what a request made stays after its end, in seconds by the database's clock."""

    after_success: float = 3600.0
    after_failure: float = 7 * 86_400.0


@dataclass(frozen=True)
class EndedRequest:
    """A request as its rows are, read under their locks.

    `quiet_seconds` is the time since it or one of its attempts ended last. `is_at_work` says whether an attempt lives,
    or its flow run has not been seen to be over. `is_decided` says whether its revision was approved. `is_discarded` is
    said of scratch that was deleted.
    """

    status: RequestState
    quiet_seconds: float
    is_at_work: bool = False
    is_decided: bool = False
    is_discarded: bool = False


def fate(request: EndedRequest, patience: Retention) -> Fate:
    """Decide what may be done now about the request's files and tables."""
    if request.is_at_work or request.status in OPEN_REQUESTS:
        return Fate.LEAVE
    succeeded = request.status is RequestState.COMPLETED
    if request.quiet_seconds < (patience.after_success if succeeded else patience.after_failure):
        return Fate.LEAVE
    return Fate.TIDY if (succeeded or request.is_decided) and not request.is_discarded else Fate.COLLECT


def rerun_refusal(status: RequestState) -> str:
    """Return why a collected request cannot be rerun from where it stood."""
    return (
        f"What the request had made until it {'failed' if status is RequestState.FAILED else 'was cancelled'} has been "
        "removed. Rerun the run with scope `all` to do all of its work again."
    )


@dataclass(frozen=True)
class Making:
    """What a request has made so far, as its rows tell.

    `attempts` is the highest number that an attempt of any of its runs has. `memories` are its runs' generations.
    `copies` are the folders outside that it was to fill or to empty. `named` is what its rows name, with its zone.
    """

    fate: Fate
    attempts: int
    memories: Mapping[str, int]
    revision: tuple[str, int, int] | None = None
    copies: frozenset[str] = frozenset()
    named: frozenset[Place] = field(default=frozenset(), repr=False)

    @property
    def homes(self) -> list[str]:
        """The folders of what it makes: of its revision, or of each run where it makes none."""
        return [revision_home(*self.revision)] if self.revision else [run_home(run) for run in self.memories]

    def folders(self) -> Iterator[Place]:
        """Every folder in which something of it may lie."""
        for home in self.homes:
            yield from (("silver", home), ("runs", home), ("bronze", f"{QUARANTINE}{home}"))
        yield from (("runs", run) for run in self.memories)
        yield from (("external", copies) for copies in self.copies)

    def is_left_over(self, zone: str, name: str) -> bool:
        """Whether the file may be removed. Files of later attempts and of other requests may not."""
        if self.fate is Fate.LEAVE:
            return False
        return any(
            self._is_to_go(zone, folder, name)
            for place, folder in self.folders()
            if place == zone and name.startswith(f"{folder}/")
        )

    def _is_to_go(self, zone: str, folder: str, name: str) -> bool:
        if zone == "external":
            return self._is_unwanted(zone, name)
        if attempt := attempt_in(folder, name):
            return attempt <= self.attempts and self._is_unwanted(zone, name)
        generation, newest = generation_in(folder, name), self.memories.get(folder, 0)
        if generation is None or generation > newest:
            return False
        return self.fate is Fate.COLLECT or generation < newest or is_partial(name)

    def _is_unwanted(self, zone: str, name: str) -> bool:
        return self.fate is Fate.COLLECT or (zone, name) not in self.named
