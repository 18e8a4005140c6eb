"""Whose run is sent next: shares, priorities and room, for any backlog; and a simulated pool, by the same rule."""

from collections import Counter, deque
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.rules import fairness
from domain.rules.fairness import (
    PROMOTED_SECONDS,
    RANKS,
    URGENT,
    Lane,
    Load,
    PoolRoom,
    Terms,
    Turns,
    Waiting,
    capped,
    ceiling,
    own_places,
    priority_in_line,
    rank,
    room,
)


def choose(
    waiting: list[Waiting], loads: dict[Lane, Load], terms: Terms, turns: Turns, batch: int, now: float = 0.0
) -> list[Lane]:
    return fairness.choose(waiting, loads, terms, turns, batch, now)


WIDE = {"light": PoolRoom(1000, 1000), "gdal": PoolRoom(1000, 1000)}
NAMES = st.sampled_from("abcdef")
PRIORITIES = st.sampled_from(["high", "normal", "low"])
SHARES = st.dictionaries(NAMES, st.integers(1, 5))


def lane(platform: str, priority: str = "normal", **more: str) -> Lane:
    return Lane(
        **({"pool": "light", "work_pool": "light", "workflow": "w"} | more), priority=priority, platform=platform
    )


def many(platform: str, count: int, priority: str = "normal", *, waited: float = 60.0, **more: str) -> Waiting:
    return Waiting(lane(platform, priority, **more), [waited] * count)


def names(chosen: list[Lane]) -> str:
    return "".join(one.platform for one in chosen)


def test_platforms_take_turns_however_much_each_has_waiting() -> None:
    chosen = choose([many("a", 500, waited=900), many("b", 5)], {}, Terms(WIDE), Turns(), 12)
    assert names(chosen) == "ababababab" + "aa"


def test_a_platform_with_few_runs_at_work_goes_before_one_with_many() -> None:
    loads = {lane("a"): Load(7, 7, 7, 7), lane("b"): Load(3, 3, 3, 3)}
    assert names(choose([many("a", 9), many("b", 9)], loads, Terms(WIDE), Turns(), 6)) == "bbbbab"


def test_with_room_for_one_at_a_time_turns_are_remembered() -> None:
    """Nothing is at work whenever a place is free: only who went before tells whose turn it is."""
    terms, turns = Terms({"light": PoolRoom(1, 1)}, shares={"b": 2}), Turns()
    backlog = [many("a", 99), many("b", 99), many("c", 99)]
    served = Counter(names([choose(backlog, {}, terms, turns, 10)[0] for _ in range(40)]))
    assert served == {"a": 10, "b": 20, "c": 10}


def test_a_platform_that_was_away_has_saved_up_no_turns() -> None:
    turns, terms = Turns(), Terms({"light": PoolRoom(1, 1)})
    for _ in range(50):
        choose([many("a", 99)], {}, terms, turns, 1)
    backlog = [many("a", 99), many("b", 99)]
    assert names([choose(backlog, {}, terms, turns, 1)[0] for _ in range(6)]) in {"bababa", "ababab"}


@given(st.lists(st.tuples(NAMES, PRIORITIES, st.integers(1, 30)), min_size=1, max_size=12), SHARES, st.integers(1, 60))
def test_of_two_platforms_that_wait_neither_is_ahead_by_more_than_one_turn(
    lanes: list[tuple[str, str, int]], shares: dict[str, int], batch: int
) -> None:
    """Within a priority, counted by share: whoever got one more had at most as many as the other before it."""
    backlog = [many(name, count, priority) for (name, priority), count in Counter(_spread(lanes)).items()]
    terms = Terms(WIDE, shares=shares)
    chosen = choose(backlog, {}, terms, Turns(), batch)
    ranks = [RANKS[one.priority] for one in chosen]
    assert ranks == sorted(ranks), "higher priorities first"
    assert len(chosen) == min(batch, sum(len(one.waited_seconds) for one in backlog))
    got, left = Counter(chosen), {one.lane: len(one.waited_seconds) for one in backlog}
    for one in got:
        for other in (other for other in left if other.priority == one.priority and left[other] > got[other]):
            before = (got[one] - 1) / terms.share(one.platform)
            assert before <= got[other] / terms.share(other.platform) + 1e-9


def _spread(lanes: list[tuple[str, str, int]]) -> list[tuple[str, str]]:
    return [(name, priority) for name, priority, count in lanes for _ in range(count)]


@given(st.lists(st.tuples(NAMES, PRIORITIES, st.integers(1, 30)), min_size=1, max_size=9), st.integers(1, 40), SHARES)
def test_no_room_is_overfilled_and_no_platform_fills_it_alone(
    lanes: list[tuple[str, str, int]], places: int, shares: dict[str, int]
) -> None:
    backlog = [many(name, count, priority) for (name, priority), count in Counter(_spread(lanes)).items()]
    terms = Terms({"light": PoolRoom(200, places)}, shares=shares)
    chosen = choose(backlog, {}, terms, Turns(), 100)
    by_platform, by_priority = Counter(one.platform for one in chosen), Counter(one.priority for one in chosen)
    assert len(chosen) <= places
    assert all(count <= own_places(places) for count in by_platform.values())
    assert by_priority["low"] <= ceiling(places, "low")
    assert by_priority["low"] + by_priority["normal"] <= places
    got = Counter(chosen)
    left = [Waiting(one.lane, one.waited_seconds[got[one.lane] :]) for one in backlog]
    loads = {one: Load(*[count] * 4) for one, count in got.items()}
    assert choose(left, loads, terms, Turns(), 100) == [], "a batch takes all that fits"


@settings(max_examples=60)
@given(
    st.lists(st.tuples(NAMES, PRIORITIES), min_size=2, max_size=8, unique=True),
    SHARES,
    st.integers(1, 6),
    st.integers(1, 12),
)
def test_every_waiting_run_is_sent_in_the_end(
    waiting: list[tuple[str, str]], shares: dict[str, int], places: int, batch: int
) -> None:
    """Every platform has always more waiting, by every priority that it has: each of them goes within bounded time.

    Time passes by the length of a priority's promotion, so that what waits rises.
    """
    terms, turns, served = Terms({"light": PoolRoom(200, places)}, shares=shares), Turns(), set[str]()
    shares_of_all = sum(terms.share(name) for name, _ in waiting)
    for step in range(3 + 2 * shares_of_all):
        now = step * PROMOTED_SECONDS
        backlog = [many(name, batch, priority, waited=now) for name, priority in waiting]
        served.update(names(choose(backlog, {}, terms, turns, batch, now)))
    assert served == {name for name, _ in waiting}


def test_room_is_kept_for_what_a_platform_has_of_higher_priority() -> None:
    """Its low runs hold all that they may: its high one goes at once, and no other low one."""
    terms = Terms({"light": PoolRoom(200, 20)})
    low = choose([many("a", 99, "low")], {}, terms, Turns(), 99)
    loads = {lane("a", "low"): Load(*[len(low)] * 4)}
    backlog = [many("a", 99, "low"), many("a", 1, "high", waited=0), many("a", 1, waited=0)]
    after = choose(backlog, loads, terms, Turns(), 99)
    assert [one.priority for one in after] == ["high", "normal"]


@pytest.mark.parametrize("name", ["platform:a", "workflow:w"])
def test_room_is_kept_within_a_limit_too(name: str) -> None:
    terms = Terms(WIDE, limits={name: 8})
    assert len(choose([many("a", 99, "low")], {}, terms, Turns(), 99)) == 6
    held = {lane("a", "low"): Load(*[6] * 4)}
    after = choose([many("a", 99, "low"), many("a", 99), many("a", 99, "high")], held, terms, Turns(), 99)
    assert [one.priority for one in after] == ["high", "high"]


def test_urgent_runs_go_first_whatever_pool_is_full() -> None:
    backlog = [many("a", 9, "high", waited=10_000), many("", 2, URGENT, waited=0)]
    full = {lane("a", "high"): Load(*[200] * 4)}
    assert names(choose(backlog, full, Terms({"light": PoolRoom(200, 20)}), Turns(), 9)) == ""
    assert len(choose(backlog, full, Terms({"light": PoolRoom(200, 20)}), Turns(), 9)) == 2
    order = choose(backlog, {}, Terms({"light": PoolRoom(200, 20)}), Turns(), 4)
    assert [one.priority for one in order] == [URGENT, URGENT, "high", "high"]


def test_runs_that_wait_for_another_pool_leave_room_on_their_own() -> None:
    parents = lane("a", work_pool="gdal", workflow="parents")
    terms = Terms({"light": PoolRoom(200, 20), "gdal": PoolRoom(200, 200)})
    waiting = {parents: Load(in_flight=200, at_home=0, busy=0, at_work=200)}
    assert len(choose([many("a", 3), many("b", 3)], waiting, terms, Turns(), 9)) == 6
    working = {parents: Load(in_flight=200, at_home=200, busy=200, at_work=200)}
    assert choose([many("b", 3)], working, terms, Turns(), 9) == []
    assert choose([many("b", 3, work_pool="gdal")], waiting, terms, Turns(), 9) == [], "gdal's room is full"


def test_pauses_hold_what_they_name_and_nothing_else() -> None:
    backlog = [many("a", 2), many("b", 2), many("b", 2, workflow="v")]
    for paused, left in (("*", ""), ("platform:a", "bbbb"), ("workflow:w", "bb"), ("platform:c", "aabbbb")):
        assert sorted(names(choose(backlog, {}, Terms(WIDE, frozenset({paused})), Turns(), 9))) == sorted(left)


def test_a_run_that_waits_long_rises_and_stays_behind_urgent_ones() -> None:
    assert [rank("low", seconds) for seconds in (0, 899, 900, 1800, 99_999)] == [3, 3, 2, 1, 1]
    assert rank("high", 99_999) == RANKS["high"] > rank(URGENT, 0)


def test_a_long_backlog_does_not_rise_by_its_own_length() -> None:
    """Its oldest have waited for an hour, but each second one of them goes: others of its priority go in turn."""
    turns, terms = Turns(), Terms({"light": PoolRoom(1, 1)})
    backlog = [many("a", 99, waited=3600)]
    for now in (0, 10_000):
        choose(backlog, {}, terms, turns, 1, now=now)
    backlog.append(many("b", 5, waited=0))
    assert names([choose(backlog, {}, terms, turns, 1, now=10_001 + step)[0] for step in range(6)]) in {
        "bababa",
        "ababab",
    }


def test_low_priority_run_is_sent_in_the_end_behind_endless_high_ones() -> None:
    turns, terms, gone = Turns(), Terms({"light": PoolRoom(1, 1)}), list[str]()
    for minute in range(120):
        backlog = [many("a", 9, "high", waited=60), many("b", 9, "low", waited=60 * minute)]
        gone += names(choose(backlog, {}, terms, turns, 1, now=60.0 * minute))
    assert gone.index("b") == 30
    assert 3 <= gone.count("b") <= 6


def test_a_platform_gets_the_priority_it_asks_for_up_to_its_cap() -> None:
    assert [capped(asked, "normal") for asked in ("low", "normal", "high")] == ["low", "normal", "normal"]
    assert [capped(asked, "high") for asked in ("low", "high")] == ["low", "high"]
    assert priority_in_line("high", of_the_service=True) == URGENT
    assert priority_in_line("normal", of_the_service=True) == "normal"
    assert priority_in_line("high", of_the_service=False) == "high"


def test_a_pools_room_follows_what_its_workers_do_at_once() -> None:
    assert room(200, [4]) == PoolRoom(200, 20)
    assert room(200, [4, 60]) == PoolRoom(200, 200)
    assert room(2, [4]) == PoolRoom(2, 2)
    assert room(200, []) == room(200, [4, None]) == PoolRoom(200, 200), "nobody knows"


@dataclass
class Pool:
    """A simulated pool: what is sent waits in one queue, as in Prefect, and workers do so many at once."""

    terms: Terms
    at_once: int
    seconds: int = 3
    waiting: dict[Lane, int] = field(default_factory=dict)
    queue: deque[Lane] = field(default_factory=deque)
    at_work: list[tuple[int, Lane]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    turns: Turns = field(default_factory=Turns)
    now: int = 0

    def step(self) -> None:
        """A second: send what the dispatcher would, let workers take and end runs."""
        self.now += 1
        in_flight = Counter([*self.queue, *(one for _, one in self.at_work)])
        loads = {one: Load(*[count] * 4) for one, count in in_flight.items()}
        backlog = [Waiting(one, [60.0] * min(10, count)) for one, count in self.waiting.items() if count]
        for one in choose(backlog, loads, self.terms, self.turns, 10, self.now):
            self.waiting[one] -= 1
            self.queue.append(one)
        done = [one for one in self.at_work if one[0] <= self.now]
        self.at_work = [one for one in self.at_work if one[0] > self.now]
        self.ended += [one.platform for _, one in done]
        while self.queue and len(self.at_work) < self.at_once:
            self.at_work.append((self.now + self.seconds, self.queue.popleft()))


def others_before(terms: Terms, late: Lane, first: Lane) -> int:
    """How many of 500 end from when five of another platform come until these five have ended."""
    pool = Pool(terms, at_once=4, waiting={first: 500})
    for _ in range(40):
        pool.step()
    before, pool.waiting[late] = pool.ended.count("a"), 5
    while pool.ended.count("b") < 5:
        pool.step()
    return pool.ended.count("a") - before


def test_five_of_one_platform_end_before_25_more_of_another_with_500() -> None:
    terms = Terms({"light": room(200, [4])})
    assert others_before(terms, lane("b"), lane("a")) < 25
    assert others_before(terms, lane("b", "low"), lane("a", "low")) < 25
    assert others_before(replace(terms, shares={"a": 5}), lane("b"), lane("a")) < 50


def test_simulation_shows_long_waits_where_everything_is_sent_at_once() -> None:
    """The control: where all are sent on at once, the five wait behind whoever came before, whatever the rule says."""
    assert others_before(Terms({"light": PoolRoom(1000, 1000)}), lane("b"), lane("a")) > 100
