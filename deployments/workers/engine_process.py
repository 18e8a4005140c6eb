"""A light flow run by Prefect's own engine (`CAIRN_ENGINE=stock`): that expects a process to itself, so it gets one."""

import asyncio
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefect.client.orchestration import get_client

from flows.runs.stopping import Reason, Stop, stoppable_by_id

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

ENGINE = "CAIRN_ENGINE"
STOCK = "stock"


def is_stock() -> bool:
    """Whether flow runs of this worker go through Prefect's own engine."""
    return os.environ.get(ENGINE) == STOCK


class EngineEnded(RuntimeError):
    """The run's process has ended, and not by itself."""


@dataclass
class EngineProcess:
    """One flow run in a process of its own. It is asked to leave by SIGTERM, as of any process worker's."""

    flow_run: "FlowRun"
    entrypoint: str
    stopped: Reason | None = None
    threads_left: bool = False

    async def run_flow(self) -> None:
        """Await the run's end; end it where this is given up."""
        own = {"PREFECT__FLOW_RUN_ID": str(self.flow_run.id), "PREFECT__FLOW_ENTRYPOINT": self.entrypoint}
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "prefect.engine", env=os.environ | own)
        stop, loop = Stop(), asyncio.get_running_loop()
        stop.on_set(lambda: loop.call_soon_threadsafe(_terminate, process))
        try:
            with stoppable_by_id(self.flow_run.id, stop):
                code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if code and not await self._is_over():  # else it has told how it ended, as one that was cancelled
            raise EngineEnded(f"The process of the run ended with {code}.")

    async def _is_over(self) -> bool:
        async with get_client(sync_client=False) as client:
            state = (await client.read_flow_run(self.flow_run.id)).state
        return state is not None and state.is_final()


def _terminate(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
