"""A copy that the account makes by itself, and that is stopped: nothing is left under its name.

Azurite copies at once, so its answer that a copy is under way is a stand-in's; the blob that the account keeps of an
aborted copy, one without content, is made by hand. All else is Azurite.
"""

from typing import Any
from uuid import uuid4

import pytest
from azure.core.exceptions import ResourceExistsError

from flows.handlers.errors import Stopped
from flows.storage.azure import AzureStore
from tests.support.azurite import Azurite


class UnderWay:
    """A blob that a copy has begun to fill."""

    def __init__(self, blob: Any, *, has_just_ended: bool) -> None:
        self._blob, self._has_just_ended = blob, has_just_ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blob, name)

    def start_copy_from_url(self, url: str) -> dict[str, str]:
        self._blob.upload_blob(b"", overwrite=True)
        return {"copy_status": "pending", "copy_id": "c"}

    def abort_copy(self, copy_id: str) -> None:
        assert copy_id == "c"
        if self._has_just_ended:
            raise ResourceExistsError("NoPendingCopyOperation")


@pytest.mark.parametrize("has_just_ended", [False, True])
def test_an_aborted_copy_leaves_no_blob(
    azurite: Azurite, monkeypatch: pytest.MonkeyPatch, has_just_ended: bool
) -> None:
    zones = azurite.zones(f"c{uuid4().hex[:12]}-")
    zones.silver.write_bytes("a/b", b"content")
    real = AzureStore._blob
    monkeypatch.setattr(
        AzureStore, "_blob", lambda store, name: UnderWay(real(store, name), has_just_ended=has_just_ended)
    )

    def stop(moved: int) -> None:
        assert zones.external.size_bytes("a/b") == moved == 0
        raise Stopped("The run was asked to stop.")

    with pytest.raises(Stopped):
        zones.external.copy_from("a/b", zones.silver, "a/b", stop)
    assert zones.external.size_bytes("a/b") is None
