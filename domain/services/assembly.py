"""Makes use cases from what the process holds, for routes and for loops."""

from sqlalchemy.ext.asyncio import AsyncSession

from domain.services.publication.catalogue import ServedCatalogue
from domain.services.publication.deciding import FilesRead
from domain.services.publication.exports import ExportDesk
from domain.services.publication.reviews import Reviews
from domain.state import Service


def exports_of(session: AsyncSession, service: Service) -> ExportDesk:
    return ExportDesk(session, service.definitions, service.settings.export_workflow)


def served_catalogue(session: AsyncSession, service: Service, files: FilesRead) -> ServedCatalogue:
    return ServedCatalogue(session, files, str(service.settings.public_url))


def review_desk(session: AsyncSession, service: Service, files: FilesRead, if_match: str | None = None) -> Reviews:
    return Reviews(session, served_catalogue(session, service, files), exports_of(session, service), if_match)
