"""Takes files of the corpus through real tries, each in a process of its own, and notes what became of them."""

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from domain.contracts.runs import RunFacts
from flows.handlers.context import ignore_progress
from flows.handlers.errors import HandlerError, InvalidInput
from flows.storage import Zones
from flows.tries import one_try
from flows.tries.one_try import Care, Try
from tests.support.hostile import Sample
from tests.support.rasters import bronze

FACTS = RunFacts(id="run", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)
TIMEOUT_SECONDS = 300.0
# What of a result must be the same each time.
TOLD = ("outcome", "cog", "feature_count", "geometry_type", "bounds_wgs84", "repairs", "fields")


@dataclass(frozen=True)
class Fate:
    """What became of one file in one handler."""

    name: str
    handler: str
    verdict: str
    words: str
    seconds: float
    peak_mb: float
    cpu_seconds: float

    @property
    def is_orderly(self) -> bool:
        """Taken, or refused with a sentence for the sender. Everything else is a failure of ours."""
        return self.verdict in ("taken", "refused")


def fate_of(sample: Sample, handler: str, root: Path, params: dict[str, Any] | None = None) -> Fate:
    """Put the file into the bronze zone and let the handler have it."""
    name = f"up/{sample.name}{sample.ending}"
    bronze(root, name).write_bytes(sample.content)
    heard: dict[str, float] = {}
    begun = time.monotonic()
    try:
        result = try_of(handler, {"source": name, **(params or {})}, root, heard)
        verdict, words = "taken", json.dumps({told: result[told] for told in TOLD if told in result})
    except InvalidInput as refusal:
        verdict, words = "refused", str(refusal)
    except HandlerError as fault:
        verdict, words = fault.code, str(fault)
    seconds = time.monotonic() - begun
    return Fate(sample.name, handler, verdict, words, seconds, heard.get("peak_mb", 0.0), heard.get("cpu_seconds", 0.0))


def try_of(handler: str, params: dict[str, Any], root: Path, heard: dict[str, float] | None = None) -> dict[str, Any]:
    """One try of the handler, in a child."""
    heard = {} if heard is None else heard
    one = Try(node_id="n", handler=handler, params=params, facts=FACTS, timeout_seconds=TIMEOUT_SECONDS)
    return one_try.run_try(one, Care(Zones.local(root), Event(), ignore_progress, heard.__setitem__))
