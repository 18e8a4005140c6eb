"""A stand-in for Prefect's answers about many flow runs at once."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import State as PrefectState


class ManyFlowRuns:
    """Answers by the filters that are asked with, from what it says of each flow run."""

    asked = 0

    def state_of(self, flow_run_id: UUID) -> "PrefectState[Any] | None":
        """How this one stands; None where there is no such flow run."""
        raise NotImplementedError

    async def count_flow_runs(self, *, flow_run_filter: FlowRunFilter) -> int:
        self.asked += 1
        return len(self._chosen(flow_run_filter))

    async def read_flow_runs(self, *, flow_run_filter: FlowRunFilter, limit: int) -> list[Any]:
        self.asked += 1
        chosen = self._chosen(flow_run_filter)
        assert len(chosen) <= limit
        return [SimpleNamespace(id=one, state=state) for one, state in chosen.items()]

    def _chosen(self, wanted: FlowRunFilter) -> "dict[UUID, PrefectState[Any]]":
        ids = (wanted.id and wanted.id.any_) or []
        known = {one: state for one in ids if (state := self.state_of(one)) is not None}
        kind = wanted.state.type if wanted.state else None
        if kind is None:
            return known
        return {
            one: state
            for one, state in known.items()
            if (kind.any_ is None or state.type in kind.any_) and state.type not in (kind.not_any_ or [])
        }
