"""Calls Data Factory's REST API, as far as an export needs it. Other modules decide what answers mean.

The token is Azure's library's to get and to renew; it is shown to the one endpoint and appears nowhere else.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

import httpx
from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.identity import ChainedTokenCredential, DefaultAzureCredential

from flows.handlers.adf.answers import FactoryBusy, FactoryRefused, RunGone, refusal
from flows.handlers.adf.settings import AdfSettings

API_VERSION: Final = "2018-06-01"


class DataFactory:
    """One factory, called with our identity."""

    def __init__(self, settings: AdfSettings, http: httpx.Client, credential: ChainedTokenCredential) -> None:
        self._settings, self._http, self._credential = settings, http, credential

    def start(self, pipeline: str, parameters: Mapping[str, Any]) -> str:
        """Create a run of the pipeline and return its id. Repeated, Data Factory creates two."""
        return str(self._ask("POST", f"/pipelines/{pipeline}/createRun", json=dict(parameters))["runId"])

    def run(self, run_id: str) -> Mapping[str, Any]:
        """Return what Data Factory says of a run."""
        return self._ask("GET", f"/pipelineruns/{run_id}")

    def cancel(self, run_id: str) -> None:
        """Ask that the run and what it started be cancelled. A run that has ended is no error."""
        try:
            self._ask("POST", f"/pipelineruns/{run_id}/cancel", isRecursive="true")
        except RunGone:
            return

    def runs(self, pipeline: str, since: datetime, until: datetime) -> Iterator[Mapping[str, Any]]:
        """Return the pipeline's runs that were updated in this time."""
        wanted: dict[str, Any] = {
            "lastUpdatedAfter": since.isoformat(),
            "lastUpdatedBefore": until.isoformat(),
            "filters": [{"operand": "PipelineName", "operator": "Equals", "values": [pipeline]}],
        }
        while True:
            page = self._ask("POST", "/queryPipelineRuns", json=wanted)
            yield from page.get("value") or []
            if not page.get("continuationToken"):
                return
            wanted["continuationToken"] = page["continuationToken"]

    def _ask(self, method: str, path: str, json: Any = None, **query: str) -> Mapping[str, Any]:
        try:
            answer = self._http.request(
                method,
                f"{self._settings.factory_url}{path}",
                params={"api-version": API_VERSION, **query},
                json=json,
                headers={"Authorization": f"Bearer {self._token()}"},
            )
        except httpx.TransportError as error:
            raise FactoryBusy(f"Data Factory cannot be reached ({type(error).__name__}).") from None
        body = _json(answer)
        if answer.status_code == HTTPStatus.NOT_FOUND and "/pipelineruns/" in path:
            raise RunGone(f"Data Factory knows no run {path.split('/')[2]}.")
        if not answer.is_success:
            raise refusal(answer.status_code, body, answer.headers.get("Retry-After"))
        return body if isinstance(body, Mapping) else {}

    def _token(self) -> str:
        """Return a token of the worker's identity; Azure's library keeps it until it is about to expire."""
        try:
            return self._credential.get_token(self._settings.scope).token
        except ClientAuthenticationError as error:
            raise FactoryRefused(f"The worker has no identity that Azure knows ({type(error).__name__}).") from None
        except AzureError as error:
            raise FactoryBusy(f"No token could be had ({type(error).__name__}).") from None


@contextmanager
def data_factory(settings: AdfSettings) -> Iterator[DataFactory]:
    """Open the factory of the settings for the block. Redirects are not followed, so the token stays with it."""
    with (
        httpx.Client(timeout=settings.timeout_seconds, follow_redirects=False) as http,
        DefaultAzureCredential(managed_identity_client_id=settings.client_id) as credential,
    ):
        yield DataFactory(settings, http, credential)


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None
