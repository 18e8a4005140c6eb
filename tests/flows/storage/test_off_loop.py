"""Stores and event loops: a loop's thread is refused, and calls made for a loop are in nobody else's way."""

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, current_thread

import pytest

from flows.storage import ZONES, LocalStore, StampedStore, Store, Zones, off_loop
from flows.storage.azure import AzureStore
from flows.storage.brokered import BrokeredStore
from flows.storage.off_loop import CALLS, StoreCalledOnLoop, nobody_is_excused
from flows.storage.threads import AT_ONCE, in_sign_thread, in_storage_thread
from tests.support.clock import PATIENCE_SECONDS, eventually

KINDS = (LocalStore, AzureStore, BrokeredStore)


@pytest.fixture
def nobody_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in production: here tests' own coroutines are refused, too."""
    monkeypatch.setattr(off_loop, "is_excused", nobody_is_excused)


def test_every_store_method_is_in_the_list_of_guarded_calls() -> None:
    calls = inspect.getmembers(StampedStore, inspect.isfunction)
    assert set(CALLS) == {name for name, _ in calls if not name.startswith("_")}


def test_stores_of_services_are_stamped_and_those_of_tries_are_not() -> None:
    has = {kind: isinstance(object.__new__(kind), StampedStore) for kind in KINDS}
    assert has == {LocalStore: True, AzureStore: True, BrokeredStore: False}


def test_zones_of_tries_are_refused_to_services() -> None:
    zones = Zones(*(BrokeredStore(zone, lambda *_: pytest.fail("nobody is asked")) for zone in ZONES))
    for zone in ZONES:
        with pytest.raises(TypeError, match=f"The zone {zone} is a try's"):
            zones.of_service(zone)
        assert not any(hasattr(getattr(zones, zone), call) for call in ("stamp", "listed", "remove"))


@pytest.mark.usefixtures("nobody_excused")
@pytest.mark.parametrize(("kind", "call"), [(kind, call) for kind in KINDS for call in CALLS if hasattr(kind, call)])
async def test_store_refuses_the_thread_of_a_running_loop(kind: type[Store], call: str) -> None:
    store = object.__new__(kind)
    with pytest.raises(StoreCalledOnLoop, match="in_storage_thread"):
        getattr(store, call)()


@pytest.mark.usefixtures("nobody_excused")
async def test_pieces_of_a_blob_are_not_read_on_a_loop_either(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await in_storage_thread(store.write_bytes, "a", b"content")
    pieces: Iterator[bytes] = await in_storage_thread(store.chunks, "a")
    with pytest.raises(StoreCalledOnLoop):
        next(pieces)
    assert await in_storage_thread(lambda: list(store.chunks("a"))) == [b"content"]


def test_store_serves_a_thread_without_a_loop(tmp_path: Path, nobody_excused: None) -> None:
    store = LocalStore(tmp_path)
    store.write_bytes("a", b"content")
    assert list(store.chunks("a")) == [b"content"]


async def of_the_service(call: Callable[[], object]) -> object:
    return await _THEIRS(call)


# As if it stood in a file of a service.
_SPACE: dict[str, Callable[[Callable[[], object]], "asyncio.Future[object]"]] = {}
exec(compile("async def theirs(call):\n    return call()\n", "/srv/flows/runs/runner.py", "exec"), _SPACE)  # noqa: S102
_THEIRS = _SPACE["theirs"]


async def test_tests_own_coroutines_are_excused_and_those_of_services_are_not(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.write_bytes("a", b"content")
    with pytest.raises(StoreCalledOnLoop):
        await of_the_service(lambda: store.read_bytes("a"))


async def test_context_goes_along_into_the_thread() -> None:
    run = contextvars.ContextVar("run", default="none")
    run.set("this one")
    assert await in_storage_thread(run.get) == await in_sign_thread(run.get) == "this one"


async def test_storage_that_hangs_holds_up_neither_signs_of_life_nor_others_threads() -> None:
    """The loop's own threads find hosts' addresses: without one, no heartbeat is sent."""
    released, hanging = Event(), list[str]()

    def hang() -> None:
        hanging.append(current_thread().name)
        assert released.wait(PATIENCE_SECONDS)

    calls = [asyncio.create_task(in_storage_thread(hang)) for _ in range(2 * AT_ONCE)]
    try:
        await eventually(lambda: len(hanging) == AT_ONCE)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await in_sign_thread(lambda: 1) == 1
            assert await asyncio.to_thread(lambda: 2) == 2
        assert len(hanging) == AT_ONCE
    finally:
        released.set()
        await asyncio.gather(*calls)
    assert len(hanging) == 2 * AT_ONCE
