"""Which pools and queues of Prefect's are held, and how that is said."""

import pytest

from domain.rules.holds import NO_ROOM, PAUSED, held_places, in_words, order_in_words

GDAL = {"name": "gdal", "is_paused": False, "concurrency_limit": None}
LOW = {"name": "low", "work_pool_name": "gdal", "is_paused": False, "concurrency_limit": None}


@pytest.mark.parametrize(
    ("pool", "queue", "held"),
    [
        ({}, {}, {}),
        ({"concurrency_limit": 1}, {"concurrency_limit": 1}, {}),
        ({"is_paused": True}, {}, {"gdal": PAUSED}),
        ({"concurrency_limit": 0}, {}, {"gdal": NO_ROOM}),
        ({"is_paused": True, "concurrency_limit": 0}, {}, {"gdal": PAUSED}),
        ({}, {"is_paused": True}, {"gdal/low": PAUSED}),
        ({}, {"concurrency_limit": 0}, {"gdal/low": NO_ROOM}),
        ({"is_paused": True}, {"is_paused": True}, {"gdal": PAUSED}),
    ],
)
def test_place_is_held_where_it_is_paused_or_has_no_room(
    pool: dict[str, object], queue: dict[str, object], held: dict[str, str]
) -> None:
    assert held_places([GDAL | pool, {"name": "light"}], [LOW | queue]) == held


def test_queue_of_no_pool_is_held_by_its_own_name() -> None:
    assert held_places([], [{"name": "low", "work_pool_name": None}]) == {}


def test_hold_is_said_with_its_place() -> None:
    assert in_words("gdal", PAUSED) == "pool gdal is paused in Prefect"
    assert in_words("gdal/low", NO_ROOM) == "queue gdal/low has a limit of 0 in Prefect"
    assert order_in_words("*", PAUSED) == "dispatch is paused"
    assert order_in_words("platform:ddh", PAUSED) == "platform ddh is paused"
    assert order_in_words("pool:gdal", NO_ROOM) == "pool gdal has a limit of 0 in flight"
