"""What every page of the console has around its content."""

from dataclasses import dataclass
from typing import Any

from fastapi import Request
from sqlalchemy.ext.asyncio import AsyncSession

from domain.console.live import PageSubject
from domain.console.people import Person
from domain.repositories.console import ConsoleLists

MOST_COUNTED = 1000  # on every page


@dataclass(frozen=True)
class MenuEntry:
    """An entry of the console's navigation."""

    name: str
    title: str
    address: str
    operators_only: bool = False


PLACES = (
    MenuEntry("queue", "Review", "/console/"),
    MenuEntry("assets", "Assets", "/console/assets"),
    MenuEntry("platforms", "Platforms", "/console/platforms"),
    MenuEntry("callbacks", "Callbacks", "/console/callbacks"),
    MenuEntry("work", "Work", "/console/work", operators_only=True),
    MenuEntry("audit", "Audit", "/console/audit", operators_only=True),
)


async def frame(
    request: Request, session: AsyncSession, who: Person, place: str, about: PageSubject | None = None
) -> dict[str, Any]:
    """Return what every page shows. Routes ask for it first, so that the page notices changes made in between."""
    lists = ConsoleLists(session)
    mark = await lists.mark(about.page, about.asset_id, about.ordinal) if about else ""
    return {
        "who": who,
        "place": place,
        "places": [each for each in PLACES if who.may_operate or not each.operators_only],
        "waiting": _at_most(await lists.waiting(MOST_COUNTED + 1)),
        "live": _address(about) if about else "",
        "mark": mark,
        "prefect_url": _prefect(request),
    }


def _at_most(count: int) -> str:
    return str(count) if count <= MOST_COUNTED else f"{MOST_COUNTED:,}+"


def _address(about: PageSubject) -> str:
    parts = [about.page, *([about.asset_id] if about.asset_id else [])]
    if about.page == "version":
        parts.append(str(about.ordinal))
    return "/console/live/" + "/".join(parts)


def _prefect(request: Request) -> str | None:
    url = request.app.state.service.settings.prefect_ui_url
    return str(url).rstrip("/") if url else None
