"""What one domain process holds while it runs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from domain.adapters.sealing import Vault
from domain.contracts.records import LogLine
from domain.db import Database
from domain.loops.listening_notes import ListeningNotes
from domain.services.operations.workflow_definitions import Definitions
from domain.services.operations.workflow_library import Library
from domain.services.publication.file_checks import FileChecks
from domain.services.submissions.quotas import Quotas
from domain.services.submissions.waiting_line import AcceptanceTurns
from domain.settings import DomainSettings
from domain.shared.authentication import Authentication
from domain.shared.notices import Notices
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
    authentication: Authentication
    fences: Notices
    turns: AcceptanceTurns
    listener: ListeningNotes
    last_lines: LastLines | None = None  # where this process talks to Prefect

    @property
    def definitions(self) -> Definitions:
        """The workflows as they are now. A use case takes them once and uses them to its end."""
        return self.library.current
