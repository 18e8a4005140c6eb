"""How many requests a platform may have open. Counted now and then, not at every submission."""

import time
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import TooManyOpen
from domain.repositories.controls import Controls
from domain.rules.control import scope_name

RETRY_SECONDS = 30


@dataclass
class Quotas:
    """Refuses a platform with too many open requests. A burst may exceed the limit, as a count is kept for a moment."""

    default: int
    trusted_seconds: float
    _seen: dict[str, tuple[float, int | None]] = field(default_factory=dict)

    async def refuse_over(self, session: AsyncSession, platform_id: str) -> None:
        """Refuse with the time after which asking again makes sense."""
        checked_at, exceeded = self._seen.get(platform_id, (float("-inf"), None))
        now = time.monotonic()
        if now - checked_at >= self.trusted_seconds:
            exceeded = await self._exceeded(session, platform_id)
            self._seen[platform_id] = (now, exceeded)
        if exceeded is not None:
            raise TooManyOpen(
                f"The platform has {exceeded} open requests, as many as it may. Submit again when some have ended.",
                retry_after_seconds=RETRY_SECONDS,
                limit=exceeded,
            )

    async def _exceeded(self, session: AsyncSession, platform_id: str) -> int | None:
        """Return the limit where it is reached, else None."""
        controls = Controls(session)
        own = await controls.limit("open_requests", scope_name(platform_id=platform_id))
        limit = self.default if own is None else own
        return limit if await controls.open_requests(platform_id, up_to=limit) >= limit else None
