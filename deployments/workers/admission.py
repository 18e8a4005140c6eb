"""Which waiting runs a host has room for now: what they need against its memory, processors and GPUs. Pure.

A run that says nothing holds an equal part of the host, as one of so many at once. What does not fit now is left in
its queue, for whichever host has room first; one that has waited long keeps smaller ones from passing it here.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

LONG_SECONDS = 30.0  # after which nothing passes a run that the host could hold, were it empty
USUAL_MEMORY_MB = 512.0
ROUNDING = 1e-6


@dataclass(frozen=True)
class HostSize:
    """What a host has to give."""

    memory_mb: float
    cpus: float
    gpus: int = 0


@dataclass(frozen=True)
class Needs:
    """What a run holds of its host while it runs."""

    memory_mb: float
    cpus: float
    gpus: int = 0

    def fits(self, size: HostSize, held: Collection["Needs"] = ()) -> bool:
        """Whether the host has room for it beside what it holds."""
        return (
            self.memory_mb + sum(one.memory_mb for one in held) <= size.memory_mb + ROUNDING
            and self.cpus + sum(one.cpus for one in held) <= size.cpus + ROUNDING
            and self.gpus + sum(one.gpus for one in held) <= size.gpus
        )


@dataclass(frozen=True)
class Told:
    """What a run's job variables say that one try of it needs."""

    memory_mb: float | None = None
    cpus: float | None = None
    gpus: int = 0

    @classmethod
    def of(cls, job_variables: Mapping[str, Any] | None) -> "Told":
        said = job_variables or {}
        return cls(said.get("memory_mb") or None, said.get("cpus") or None, int(said.get("gpu") or 0))

    def needs(self, size: HostSize, at_once: int, tries: int = 1) -> Needs:
        """What the run holds with so many tries at once; of what it does not say, an equal part of the host."""
        return Needs(
            self.memory_mb * tries if self.memory_mb else min(USUAL_MEMORY_MB, size.memory_mb / at_once),
            self.cpus * tries if self.cpus else size.cpus / at_once,
            self.gpus * tries,
        )


@dataclass(frozen=True)
class WaitingRun:
    """A run that Prefect offers to this host, and for how long this host has left it in its queue."""

    id: UUID
    told: Told = Told()
    passed_over_seconds: float = 0.0


@dataclass(frozen=True)
class Grant:
    """How many tries at once a run may make, of which it said what they need; None where it said nothing."""

    needs: Needs
    tries: int | None


def admitted(waiting: Sequence[WaitingRun], held: Collection[Needs], size: HostSize, at_once: int) -> dict[UUID, Grant]:
    """Return which of the runs begin now, in their order, and what each gets.

    A run that would not fit if the host were empty is somebody else's. What is left once all that fit have room for one
    try is given to those that said what a try needs, in their order, for as many tries as the host has processors.
    """
    chosen: dict[UUID, tuple[Told, Needs]] = {}
    for run in waiting:
        needs = run.told.needs(size, at_once)
        if needs.fits(size, [*held, *(taken for _, taken in chosen.values())]):
            chosen[run.id] = run.told, needs
        elif needs.fits(size) and run.passed_over_seconds >= LONG_SECONDS:
            break
    grants: dict[UUID, Grant] = {}
    for run_id, (told, needs) in chosen.items():
        others = [
            grants[other].needs if other in grants else one for other, (_, one) in chosen.items() if other != run_id
        ]
        grants[run_id] = _grown(told, needs, [*held, *others], size, at_once)
    return grants


def _grown(told: Told, needs: Needs, held: Collection[Needs], size: HostSize, at_once: int) -> Grant:
    if told == Told():
        return Grant(needs, None)
    tries = 1
    while tries < size.cpus and (more := told.needs(size, at_once, tries + 1)).fits(size, held):
        needs, tries = more, tries + 1
    return Grant(needs, tries)
