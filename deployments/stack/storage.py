"""Where an embedded stack's zones are: in its own folder, unless the environment names a storage account."""

import os
from collections.abc import Mapping

from deployments.stack.state import StackState
from flows.storage import Zones
from flows.storage.settings import StorageSettings

# How Azure's libraries find out who a machine is.
IDENTITY_FAMILIES = ("AZURE_", "IDENTITY_", "MSI_", "IMDS_")


def settings_of(state: StackState) -> StorageSettings:
    """What the environment says, else the folder."""
    told = StorageSettings()
    return told if told.names_storage else StorageSettings(storage_root=state.storage)


def zones_of(state: StackState) -> Zones:
    """The zones, for commands that read or write them by themselves."""
    return settings_of(state).zones()


def environment(state: StackState) -> Mapping[str, str]:
    """What a process of the stack that works with the zones needs beside the settings it is passed anyway."""
    if StorageSettings().names_storage:
        return {name: value for name, value in os.environ.items() if name.startswith(IDENTITY_FAMILIES)}
    return {"CAIRN_STORAGE_ROOT": str(state.storage)}
