"""Stores zones and run storage: one protocol and its kinds. Knows nothing of Prefect, GDAL or handlers.

The Azure kind is loaded by whoever configures it; nothing of Azure's is imported where zones are folders.
"""

from flows.storage.local import LocalStore
from flows.storage.protocol import CommonStore, SmallStore, StampedStore, Store, checked_name
from flows.storage.zones import ZONES, Zones

__all__ = ["ZONES", "CommonStore", "LocalStore", "SmallStore", "StampedStore", "Store", "Zones", "checked_name"]
