"""What one domain process holds while it runs."""

from dataclasses import dataclass

from domain.adapters.sealing import Vault
from domain.db import Database
from domain.doorkeeper import Doorkeeper
from domain.services.definitions import Definitions
from domain.services.quotas import Quotas
from domain.settings import DomainSettings
from flows.storage import Zones


@dataclass(frozen=True)
class Service:
    """Made at start, closed at shutdown."""

    settings: DomainSettings
    database: Database
    definitions: Definitions
    zones: Zones
    quotas: Quotas
    vault: Vault
    doorkeeper: Doorkeeper
