"""What a handler is given besides its parameters. Knows nothing of Prefect, so handlers run the same anywhere."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Protocol

from pydantic import SecretStr

from domain.contracts.names import is_inside
from flows.handlers.errors import ForeignProduct, Stopped
from flows.storage import Zones

LOGGER = "cairn.handler"
MOST_LINES = 1000  # that a GDAL try may log
LONGEST_LINE = 2000


class Checkpoint(Protocol):
    """Remembers the last phase that finished, so that the next try resumes there."""

    def load(self) -> dict[str, object] | None: ...

    def save(self, state: dict[str, object]) -> None: ...


class NoCheckpoint:
    """The checkpoint of a handler that runs outside any run: nothing is remembered."""

    def load(self) -> dict[str, object] | None:
        return None

    def save(self, state: dict[str, object]) -> None:
        """Forget the state."""


def ignore_progress(fraction: float, message: str) -> None:
    """Report to nobody."""


def ignore_metric(name: str, value: float) -> None:
    """Report to nobody."""


class MadeWhenAsked:
    """The field of a work folder, given as a folder or as a function that makes it when a handler first asks."""

    def __get__(self, context: "Context | None", owner: type["Context"]) -> Path:
        if context is None:
            raise AttributeError("A context has a folder; the class has none.")
        given: Path | Callable[[], Path] = vars(context)["_workdir"]
        return given() if callable(given) else given

    def __set__(self, context: "Context", given: Path | Callable[[], Path]) -> None:
        vars(context)["_workdir"] = given


@dataclass(frozen=True)
class Context:
    """One try of one node (or of one item of a fan-out)."""

    run_id: str
    node_id: str
    storage: Zones
    workdir: MadeWhenAsked = MadeWhenAsked()
    item_key: str | None = None
    try_number: int = 0
    output_prefix: str = "scratch"
    facts: dict[str, object] = field(default_factory=dict)
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger(LOGGER))
    checkpoint: Checkpoint = field(default_factory=NoCheckpoint)
    progress: Callable[[float, str], None] = ignore_progress
    metric: Callable[[str, float], None] = ignore_metric
    stop_event: Event = field(default_factory=Event)
    database: SecretStr | None = None  # the loader's URL, for handlers that declare it

    @property
    def task_id(self) -> str:
        return f"{self.run_id}_{self.node_id}_{self.try_number}"

    def output_name(self, filename: str) -> str:
        """The blob name for a product of this attempt: generated, so that no attempt overwrites another's."""
        return f"{self.output_prefix}/{filename}"

    def own(self, name: str) -> str:
        """Return the name if it means a blob of this run, made in this attempt or an earlier one; else refuse."""
        if not is_inside(name, self.output_prefix.rpartition("/")[0] or self.output_prefix):
            raise ForeignProduct(f"{name[:200]!r} is not the run's own. Nothing was done with it.")
        return name

    @property
    def stopping(self) -> bool:
        """True once the run was asked to stop: leave at the next safe point."""
        return self.stop_event.is_set()

    def raise_if_stopping(self) -> None:
        """Leave now if the run was asked to stop."""
        if self.stopping:
            raise Stopped("The run was asked to stop.")

    def check(self, moved: int) -> None:
        """Leave now if the run was asked to stop; transfers call this with the bytes that are through."""
        self.raise_if_stopping()
