"""Has the installed workers read their base job templates, as for a flow run; prints what they made of them."""

import asyncio
import json
from typing import Any
from uuid import uuid4

from prefect.blocks.system import Secret
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.variables import Variable
from prefect.workers.base import BaseWorker
from prefect.workers.process import ProcessWorker
from prefect_azure.workers.container_instance import AzureContainerWorker
from prefect_docker.worker import DockerWorker

from deployments import pools
from deployments.workers.inline import InlineWorker
from flows.pools import POOLS

INSTALLED: dict[str, type[BaseWorker[Any, Any, Any]]] = {
    "cairn-inline": InlineWorker,
    "process": ProcessWorker,
    "docker": DockerWorker,
    "azure-container-instance": AzureContainerWorker,
}


async def read_all() -> dict[str, Any]:
    """What the templates refer to is put on the server first."""
    await Secret(value="the-token").asave("cairn-worker-token")
    await Secret(value="the-subscription").asave("cairn-azure-subscription")
    for name in ("cairn_domain_url", "cairn_storage_block", "cairn_azure_resource_group"):
        await Variable.aset(name, f"the-{name}")
    return {f"{kind}/{pool}": await _read(kind, pool) for kind in INSTALLED for pool in POOLS}


async def _read(kind: str, pool: str) -> Any:
    configuration: Any = INSTALLED[kind].job_configuration
    async with get_client(sync_client=False) as client:
        made = await configuration.from_template_and_values(pools.template(kind, pool), {}, client=client)
    made.prepare_for_flow_run(FlowRun(id=uuid4(), flow_id=uuid4(), name="a run"))
    return made.model_dump(mode="json")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(read_all())))  # noqa: T201
