"""What one domain process holds while it runs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from domain.adapters.sealing import Vault
from domain.contracts.records import LogLine
from domain.db import Database
from domain.doorkeeper import Doorkeeper
from domain.listening import Listener
from domain.notices import Notices
from domain.services.definitions import Definitions
from domain.services.file_checks import FileChecks
from domain.services.library import Library
from domain.services.quotas import Quotas
from domain.services.turns import Turns
from domain.settings import DomainSettings
from flows.storage import Zones

LastLines = Callable[[Sequence[UUID], int], Awaitable[list[LogLine]]]


@dataclass(frozen=True)
class Service:
    """Made at start, closed at shutdown."""

    settings: DomainSettings
    database: Database
    library: Library
    zones: Zones
    file_checks: FileChecks
    quotas: Quotas
    vault: Vault
    doorkeeper: Doorkeeper
    fences: Notices
    turns: Turns
    listener: Listener
    last_lines: LastLines | None = None  # where this process talks to Prefect

    @property
    def definitions(self) -> Definitions:
        """The workflows as they are now. A use case takes them once and goes by them to its end."""
        return self.library.current
