"""Which tags operators limit in Prefect, as of a few seconds ago: what nobody limits is never asked for.

Prefect's own engine asks before each task run, and believes for five seconds that a tag has no limit. Here all limits
are read at once, for all flow runs of a process, while work begins; what begins meanwhile goes by what is known.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass, field

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.exceptions import PrefectHTTPStatusError

log = logging.getLogger("cairn.prefect")
KNOWN_SECONDS = 5.0
ANSWER_SECONDS = 10.0
PAGE = 200
_TAG = "tag:"


@dataclass
class TagLimits:
    """The tags that operators limit in Prefect."""

    tags: frozenset[str] = frozenset()
    known_until: float = 0.0
    _looking: "set[asyncio.Task[None]]" = field(default_factory=set)

    def among(self, tags: Collection[str]) -> frozenset[str]:
        """Those of these tags that are limited, as far as is known; has it looked up where that is old."""
        if time.monotonic() >= self.known_until and not self._looking:
            looking = asyncio.get_running_loop().create_task(self._look())
            self._looking.add(looking)
            looking.add_done_callback(self._looking.discard)
        return self.tags.intersection(tags) if self.tags else self.tags

    async def learn(self, client: PrefectClient) -> None:
        """Read them, unless they were read just now. Without an answer, what was known stays."""
        if time.monotonic() < self.known_until:
            return
        try:
            async with asyncio.timeout(ANSWER_SECONDS):  # no run waits for an outage to learn them
                self.tags = frozenset([name async for name in _limited(client)])
        except (httpx.HTTPError, PrefectHTTPStatusError, TimeoutError):
            return
        finally:
            self.known_until = time.monotonic() + KNOWN_SECONDS

    async def _look(self) -> None:
        try:
            async with get_client(sync_client=False) as client:
                await self.learn(client)
        except Exception:  # a client that its flow run closes just now; the next look has another
            self.known_until = time.monotonic() + 1
            log.debug("limits of tags could not be read", exc_info=True)


async def _limited(client: PrefectClient) -> AsyncGenerator[str, None]:
    offset = 0
    while page := await client.read_global_concurrency_limits(limit=PAGE, offset=offset):
        for limit in page:
            if limit.active and limit.name.startswith(_TAG):
                yield limit.name.removeprefix(_TAG)
        offset += len(page)
        if len(page) < PAGE:
            return


tag_limits = TagLimits()
