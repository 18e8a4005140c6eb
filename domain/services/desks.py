"""Use cases put together from what the process holds: for routes and for loops alike."""

from sqlalchemy.ext.asyncio import AsyncSession

from domain.services.exports import ExportDesk
from domain.services.reviews import Reviews
from domain.services.shelf import Shelf
from domain.state import Service


def exports_of(session: AsyncSession, service: Service) -> ExportDesk:
    return ExportDesk(session, service.definitions, service.settings.export_workflow)


def review_desk(session: AsyncSession, service: Service, if_match: str | None = None) -> Reviews:
    shelf = Shelf(session, service.zones, str(service.settings.public_url))
    return Reviews(session, shelf, exports_of(session, service), if_match)
