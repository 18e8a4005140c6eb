"""What the tries of a run have measured by `context.metric`, in run storage: a line for each try, that failed ones too.

It lies beside the ledger, a file for each process. What a try has measured is written before its success is remembered:
a process that dies in between does the work again, and has spent it twice.
"""

import json
import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any

from domain.contracts.runs import METRIC_NAME, MOST_METRICS
from flows.storage import SmallStore

log = logging.getLogger("cairn.ledger")
MEASURED = "_measured"  # no node is called this: ids begin with a letter


def is_metric(name: str, value: float) -> bool:
    """Whether this can be kept. Anything else is left out: a try of a stranger's file may say what it likes."""
    return METRIC_NAME.fullmatch(name) is not None and math.isfinite(value)


def sums(store: SmallStore, memory: str) -> dict[str, float]:
    """The sums of all tries, by name. A line that was written twice, as an outage may leave it, counts once."""
    tries: dict[tuple[Any, ...], Mapping[str, float]] = {}
    for line in _lines(store, memory):
        tries[line["work"], line["worker"], line["started_at"]] = line["metrics"]
    found: dict[str, float] = {}
    for metrics in tries.values():
        for name, value in metrics.items():
            found[name] = found.get(name, 0.0) + value
    kept = {name: value for name, value in sorted(found.items()) if math.isfinite(value)}
    if len(kept) > MOST_METRICS:
        log.warning("a run measured under too many names; some are left out", extra={"names": len(kept)})
    return dict(list(kept.items())[:MOST_METRICS])


def _lines(store: SmallStore, memory: str) -> Iterator[dict[str, Any]]:
    for name in store.names(f"{memory}/ledger/{MEASURED}"):
        for number, text in enumerate(store.read_bytes(name).split(b"\n")[:-1], 1):
            try:
                line = json.loads(text)
                yield {**line, "metrics": {str(key): float(value) for key, value in line["metrics"].items()}}
            except (ValueError, TypeError, KeyError, AttributeError):
                log.warning("line of a run's measurements unreadable", extra={"file": name, "line": number})
