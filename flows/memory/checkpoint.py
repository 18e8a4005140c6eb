"""Where a handler's checkpoint is kept: one small blob for each node or item, below the memory of its run.

It outlives the try, the attempt and the process, so that whoever takes over resumes at the last saved phase.
"""

import json
import logging
from dataclasses import dataclass

from flows.handlers.errors import HandlerError
from flows.storage import Store

log = logging.getLogger("cairn.checkpoint")
LARGEST_BYTES = 256 * 1024

State = dict[str, object]


@dataclass(frozen=True)
class StoredCheckpoint:
    """The checkpoint of one node or item, in run storage."""

    store: Store
    name: str

    def load(self) -> State | None:
        """What was saved last; None where nothing was. A damaged one costs its work again, never the run."""
        if self.store.size_bytes(self.name) is None:
            return None
        try:
            state = json.loads(self.store.read_bytes(self.name))
        except ValueError:
            state = None
        if not isinstance(state, dict):
            log.warning("checkpoint unreadable; beginning anew", extra={"checkpoint": self.name})
            return None
        return state

    def save(self, state: State) -> None:
        """Once this returns, the next try resumes here."""
        self.store.write_bytes(self.name, checked_state(state))


def checked_state(state: State) -> bytes:
    """The state as it is kept. It is a bookmark: work itself belongs into a zone."""
    try:
        content = json.dumps(state, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise HandlerError(f"A checkpoint holds plain JSON only: {error}") from None
    if len(content) > LARGEST_BYTES:
        raise HandlerError(
            f"The checkpoint has {len(content):,} bytes; at most {LARGEST_BYTES:,} are kept. "
            "Write the work into a zone and remember its name."
        )
    return content


def checkpoint_name(memory: str, node: str) -> str:
    """Where the checkpoint of a node, or of an item by its task's name, lies in run storage."""
    return f"{memory}/checkpoints/{node}.json"
