"""Creates flow runs in Prefect. The only module of the domain that knows Prefect."""

from dataclasses import dataclass, field
from types import TracebackType
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

PERMANENT = range(400, 500)
RETRYABLE_CLIENT_ERRORS = {408, 425, 429}


class Unclear(Exception):
    """Prefect did not answer, or not usefully: the run may or may not exist. The same key makes asking again safe."""


class Refused(Exception):
    """Prefect understood and refused: asking again the same way cannot help."""


@dataclass
class PrefectRuns:
    """A client that remembers which deployment is which."""

    _client: PrefectClient = field(default_factory=lambda: get_client(sync_client=False))
    _deployments: dict[str, UUID] = field(default_factory=dict)

    async def __aenter__(self) -> "PrefectRuns":
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def create(
        self, deployment: str, *, key: str, name: str, parameters: dict[str, str], tags: list[str]
    ) -> UUID:
        """Create the flow run of this key, or find the one that was created before."""
        try:
            run = await self._client.create_flow_run_from_deployment(
                await self._deployment_id(deployment),
                parameters=parameters,
                name=name,
                tags=tags,
                idempotency_key=key,
            )
        except PrefectHTTPStatusError as error:
            status = error.response.status_code
            if status in PERMANENT and status not in RETRYABLE_CLIENT_ERRORS:
                raise Refused(f"Prefect answered {status} for deployment {deployment}.") from error
            raise Unclear(f"Prefect answered {status}.") from error
        except httpx.HTTPError as error:
            raise Unclear(f"Prefect did not answer: {type(error).__name__}.") from error
        return run.id

    async def _deployment_id(self, deployment: str) -> UUID:
        if deployment not in self._deployments:
            try:
                self._deployments[deployment] = (await self._client.read_deployment_by_name(deployment)).id
            except ObjectNotFound as error:
                raise Unclear(f"There is no deployment {deployment!r} yet. Run `cairn deploy`.") from error
        return self._deployments[deployment]

    def forget(self, deployment: str) -> None:
        """Look the deployment up anew next time: it may have been made again."""
        self._deployments.pop(deployment, None)
