"""What goes into the scheduler (events) and what comes out (decisions). Frozen values, matched exhaustively."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flows.compiler.plan import NO_RESOURCES, Resources
from flows.compiler.states import State


@dataclass(frozen=True)
class RunError:
    """Why a node or a run failed. `partner_may_read` says whether the message may leave the house."""

    code: str
    message: str
    node_id: str | None = None
    partner_may_read: bool = False


@dataclass(frozen=True)
class NodeOutcome:
    """How a node ended, as later nodes and other processes need it."""

    state: State
    output: Any = None
    error: RunError | None = None


# --- events ---


@dataclass(frozen=True)
class NodeStarted:
    """A worker took the node up. For whoever watches; nothing is decided by it."""

    node_id: str


@dataclass(frozen=True)
class NodeCompleted:
    node_id: str
    output: Any = None


@dataclass(frozen=True)
class NodeFailed:
    """The node failed for good: retries are over, or the error allows none."""

    node_id: str
    error: RunError


@dataclass(frozen=True)
class NodeSkipped:
    """Another process that runs a segment of this plan skipped the node."""

    node_id: str


@dataclass(frozen=True)
class ItemCompleted:
    node_id: str
    index: int
    output: Any = None


@dataclass(frozen=True)
class ItemFailed:
    node_id: str
    index: int
    error: RunError


@dataclass(frozen=True)
class Cancelled:
    """The run was cancelled by a person, or fenced."""


Event = NodeStarted | NodeCompleted | NodeFailed | NodeSkipped | ItemCompleted | ItemFailed | Cancelled


# --- decisions ---


@dataclass(frozen=True)
class ExecuteNode:
    """Run this node now. For a `workflow` node the params are the inputs of the sub-workflow."""

    node_id: str
    params: Mapping[str, Any]
    needs: Resources = NO_RESOURCES


@dataclass(frozen=True)
class Item:
    """One child of a fan-out; `{node}__{index}` is its id. With `batch_size` a child is one batch."""

    index: int
    key: str
    params: Mapping[str, Any]


@dataclass(frozen=True)
class Expand:
    """Run these children now, at most `max_concurrency` at once. `count` includes those that could not be made."""

    node_id: str
    items: tuple[Item, ...]
    count: int
    max_concurrency: int | None = None
    shards: int | None = None
    needs: Resources = NO_RESOURCES


@dataclass(frozen=True)
class Skipped:
    node_id: str


@dataclass(frozen=True)
class Settled:
    """The scheduler itself brought this node to its end."""

    node_id: str
    state: State
    output: Any = None
    error: RunError | None = None


@dataclass(frozen=True)
class StopRunning:
    """Tell these nodes to stop: the run is over."""

    node_ids: tuple[str, ...]


@dataclass(frozen=True)
class Finished:
    """The run succeeded. Of a part of a workflow without an end, the outputs are empty."""

    outputs: Mapping[str, Any]


@dataclass(frozen=True)
class Failed:
    """The run failed."""

    error: RunError


Decision = ExecuteNode | Expand | Skipped | Settled | StopRunning | Finished | Failed
