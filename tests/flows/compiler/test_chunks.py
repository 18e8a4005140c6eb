"""The rule by which several processes share a fan-out's items, lived through step by step: no storage, no clock."""

import itertools
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.compiler.chunks import (
    PART,
    chunk_name,
    chunk_number,
    chunk_sizes,
    free,
    helpers_that_pay,
    offers,
    places,
    takers_at_first,
)


@dataclass
class Process:
    """One that takes chunks: what it saw when it looked last may be old, and it does few items at once."""

    most: int
    at_work: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    is_dead: bool = False
    has_left: bool = False


@dataclass
class Model:
    """A fan-out that several processes do, with the store by which they agree."""

    count: int
    processes: list[Process]
    sizes: list[int] = field(default_factory=list)
    taken: dict[str, Process] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)
    done: Counter[int] = field(default_factory=Counter)
    begun: Counter[int] = field(default_factory=Counter)
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self.sizes = self.sizes or chunk_sizes(self.count, len(self.processes))

    def items(self, name: str) -> list[int]:
        start = sum(self.sizes[: chunk_number(name)])
        return list(range(start, start + self.sizes[chunk_number(name)]))

    def look(self, process: Process) -> None:
        process.seen = set(self.taken)

    def step(self, process: Process) -> None:
        """Take a chunk where there is room, else end an item, else leave."""
        in_hand = len(process.at_work) + len(process.waiting)
        if in_hand <= process.most and self._take(process):
            pass
        elif process.at_work:
            self.done[process.at_work.pop(0)] += 1
        else:
            self.look(process)
            process.has_left = not any(free(len(self.sizes), self.again, process.seen))
        while process.waiting and len(process.at_work) < process.most:
            process.at_work.append(item := process.waiting.pop(0))
            self.begun[item] += 1
        at_once = sum(len(one.at_work) for one in self.processes if not one.is_dead)
        self.most_at_once = max(self.most_at_once, at_once)

    def _take(self, process: Process) -> bool:
        for name in free(len(self.sizes), self.again, process.seen):
            process.seen.add(name)
            if self.taken.setdefault(name, process) is process:  # as the store does: the first counts
                process.waiting += [item for item in self.items(name) if item not in self.done]
                return True
        return False

    def lose(self, process: Process) -> None:
        """The process dies, and what it had in hand is offered again."""
        process.is_dead = True
        owned = [name for name, owner in self.taken.items() if owner is process]
        lacking = {number for number in range(len(self.sizes)) if set(self.items(chunk_name(number))) - set(self.done)}
        self.again |= set(offers(owned, lacking, self.again))

    @property
    def is_over(self) -> bool:
        return len(self.done) == self.count

    def run(self, order: list[int], deaths: dict[int, int] | None = None) -> None:
        """Let processes step in this order, again and again; at these steps one of them dies and another comes."""
        deaths = dict(deaths or {})
        for number, which in enumerate(itertools.cycle(order)):
            assert number < 20 * self.count + 2000, "it does not end"
            if (victim := deaths.pop(number, None)) is not None:
                dead = self.processes[victim % len(self.processes)]
                if not dead.is_dead:
                    self.lose(dead)
                    self.processes.append(Process(dead.most))
            process = self.processes[which % len(self.processes)]
            if not process.is_dead and not process.has_left:
                self.step(process)
            if self.is_over:
                return
            if all(one.is_dead or one.has_left for one in self.processes):
                self.processes.append(Process(self.processes[0].most))


ORDER = st.lists(st.integers(0, 30), min_size=1, max_size=60).map(lambda order: [*order, *range(12)])


@given(st.integers(1, 400), st.lists(st.integers(1, 8), min_size=1, max_size=6), ORDER)
def test_items_are_done_once_each_where_no_process_dies(count: int, most: list[int], order: list[int]) -> None:
    model = Model(count, [Process(one) for one in most])
    model.run(order)
    assert model.done == dict.fromkeys(range(count), 1)
    assert model.begun == model.done
    assert model.most_at_once <= sum(most)


@given(
    st.integers(1, 200),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    ORDER,
    st.dictionaries(st.integers(0, 300), st.integers(0, 3), max_size=4),
)
def test_items_of_dead_processes_are_taken_over_and_ended_ones_are_not_begun_again(
    count: int, most: list[int], order: list[int], deaths: dict[int, int]
) -> None:
    model = Model(count, [Process(one) for one in most])
    model.run(order, deaths)
    assert model.done == dict.fromkeys(range(count), 1)
    assert sum(model.begun.values()) <= count + max(most) * len(deaths), "only what was under way is begun again"
    assert model.most_at_once <= sum(most), "who takes a dead one's place takes no more than its places"


def test_what_a_dead_process_had_would_be_lost_without_another_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: the properties above can fail."""
    monkeypatch.setattr(Model, "lose", lambda _model, process: setattr(process, "is_dead", True))
    with pytest.raises(AssertionError, match="does not end"):
        Model(20, [Process(1), Process(1)]).run([0, 1], {5: 0})


def test_two_takers_of_one_chunk_would_do_its_items_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another: of a store that lets two write the same name."""
    model = Model(40, [Process(1), Process(1)])
    monkeypatch.setattr(model, "taken", AllowsAll())
    model.run([0, 1])
    assert max(model.begun.values()) == 2


class AllowsAll(dict[str, Process]):
    """Forgets who was first."""

    def setdefault(self, name: str, process: Process) -> Process:
        return process


@given(st.integers(0, 20_000), st.integers(1, 40))
def test_chunks_hold_every_item_and_become_smaller_to_the_end(count: int, takers: int) -> None:
    sizes = chunk_sizes(count, takers)
    assert sum(sizes) == count
    assert sizes == sorted(sizes, reverse=True)
    assert all(size <= max(1, count // (PART * takers)) for size in sizes)
    assert sizes[-PART * takers :] == [1] * len(sizes[-PART * takers :]), "the last ones are of one item"


@pytest.mark.parametrize(("count", "takers", "chunks"), [(2000, 2, 60), (10_000, 4, 140), (10_000, 1, 45)])
def test_number_of_chunks_grows_much_slower_than_the_number_of_items(count: int, takers: int, chunks: int) -> None:
    assert len(chunk_sizes(count, takers)) <= chunks


def test_slow_process_holds_few_items_at_the_end() -> None:
    """It takes one step in twenty; dealt halves would have it do a thousand of two thousand."""
    fast, slow = Process(4), Process(4)
    model = Model(2000, [fast, slow])
    model.run([*[0] * 19, 1])
    theirs = [len(model.items(name)) for name, owner in model.taken.items() if owner is slow]
    assert sum(theirs) < 400
    assert len(slow.at_work) + len(slow.waiting) <= 2 * slow.most


@given(st.integers(1, 40), st.integers(1, 12))
def test_places_of_all_takers_are_those_that_the_fan_out_grants(bound: int, takers: int) -> None:
    dealt = places(bound, min(takers, bound))
    assert sum(one or 0 for one in dealt) == bound
    assert min(one or 0 for one in dealt) >= 1
    assert places(None, takers) == [None] * takers


@pytest.mark.parametrize(
    ("count", "serving", "bound", "declared", "takers"),
    [
        (4, 3, None, None, 1),  # one worker has places for all of them
        (5, 3, None, None, 2),
        (2000, 3, None, None, 3),
        (2000, 1, None, None, 1),
        (2000, 9, 2, None, 2),  # no more of them than items at once
        (2000, 1, None, 3, 3),  # as the workflow says
        (2, 1, None, 3, 2),
        (1, 5, None, None, 1),
    ],
)
def test_fan_out_begins_with_as_many_child_runs_as_there_are_workers_with_work(
    count: int, serving: int, bound: int | None, declared: int | None, takers: int
) -> None:
    assert takers_at_first(count, serving, at_once=4, bound=bound, declared=declared) == takers


@pytest.mark.parametrize(
    ("left", "ended", "seconds", "helpers"),
    [
        (1000, 1000, 2.0, 0),  # two seconds more, alone
        (10_000, 1000, 2.0, 3),
        (4000, 1000, 2.0, 1),
        (100, 0, 2.0, 2),  # nothing has ended: sixteen at once, of two seconds at least
        (10, 0, 2.0, 0),
        (0, 5, 2.0, 0),
    ],
)
def test_other_workers_help_where_the_rest_takes_longer_than_starting_them(
    left: int, ended: int, seconds: float, helpers: int
) -> None:
    assert helpers_that_pay(left, ended, 16, seconds, others=3) == helpers


def test_chunk_is_offered_anew_under_another_name_each_time() -> None:
    assert offers(["000003", "000004"], {3}, []) == ["000003.1"]
    assert offers(["000003.1"], {3}, ["000003.1"]) == ["000003.2"]
    assert list(free(2, ["000001.1"], {"000000", "000001"})) == ["000001.1"]
