"""Whose run is sent next: by priority, within it by turns of the platforms, each as far as there is room. Pure.

Attempts that wait alike form a lane. The dispatcher and the simulation of its tests ask the same function, `choose`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from domain.rules.control import EVERYTHING, is_held, scopes_of

URGENT = "urgent"  # the service's own high-priority work: takebacks of what may be read no more
RANKS = {URGENT: 0, "high": 1, "normal": 2, "low": 3}
PROMOTED_SECONDS = 900.0  # passed over for so long, work counts as one priority higher, and after twice that as two
# Of each room one place in so many is kept from a priority, for those above it.
KEPT = {"normal": 8, "low": 4}
KEPT_FOR_OTHERS = 8  # and one in so many from each platform, for the other platforms
RUNS_A_PLACE = 5  # runs in flight for each that workers do at once: most of its time a run is on its way


@dataclass(frozen=True, order=True)
class Lane:
    """What waiting attempts must share to wait alike. `platform` is empty for runs that no partner asked for."""

    pool: str
    work_pool: str
    priority: str
    platform: str
    workflow: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which operators may have limited the lane."""
        return scopes_of(self.workflow, self.platform)

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools whose room a run of the lane takes: where it begins, and where it mostly works."""
        return (self.pool,) if self.pool == self.work_pool else (self.pool, self.work_pool)


@dataclass(frozen=True)
class Load:
    """How many of a lane are in flight.

    `at_home` leaves out those that only wait for another pool; `busy`, of these, those that need a worker's time: of
    runs inside a worker, what began a while ago does not. `at_work` are those that need the other pool now or soon.
    """

    in_flight: int = 1
    at_home: int = 1
    busy: int = 1
    at_work: int = 1

    def on(self, pool: str, lane: Lane) -> tuple[int, int]:
        """Count the lane's runs at this pool, and those of them that keep it busy."""
        return (self.at_home, self.busy) if pool == lane.pool else (self.at_work, self.at_work)


@dataclass(frozen=True)
class PoolRoom:
    """How many runs a pool may have in flight, and how many of them busy."""

    in_flight: int
    busy: int


@dataclass(frozen=True)
class Waiting:
    """A lane, and how long its first attempts have waited, the oldest first."""

    lane: Lane
    waited_seconds: Sequence[float]


@dataclass(frozen=True)
class Terms:
    """What holds now: each pool's room, operators' pauses and limits by name, and the platforms' shares."""

    rooms: Mapping[str, PoolRoom]
    paused: frozenset[str] = frozenset()
    limits: Mapping[str, int] = field(default_factory=dict)
    shares: Mapping[str, int] = field(default_factory=dict)

    def share(self, platform: str) -> int:
        return self.shares.get(platform, 1)

    def in_line(self, waiting: Sequence[Waiting]) -> list[Waiting]:
        """Those in which something has waited and which no operator's pause holds."""
        return [
            one
            for one in waiting
            if one.waited_seconds and not is_held(self.paused, one.lane.workflow, one.lane.platform)
        ]


Queue = tuple[str, str, str]  # what a platform has waiting for a pool by one priority: pool, platform, priority


@dataclass
class Turns:
    """Counts each platform's turns at each pool; a larger share makes a turn count less.

    Kept in the memory of a relay: whoever begins anew lets everybody begin together.
    """

    _come: dict[tuple[str, str], float] = field(default_factory=dict)
    _now: dict[str, float] = field(default_factory=dict)
    _served_at: dict[Queue, float] = field(default_factory=dict)
    _began_at: float = field(default=float("inf"))

    def place(self, pool: str, platform: str) -> float:
        """Return the platform's count; the lowest is next. A platform that was away has saved nothing up."""
        return max(self._come.get((pool, platform), 0.0), self._now.get(pool, 0.0))

    def passed_over(self, queue: Queue, waited_seconds: float, now: float) -> float:
        """Return for how long no run of the queue was sent although some waited."""
        self._began_at = min(self._began_at, now)
        return min(waited_seconds, now - self._served_at.get(queue, self._began_at))

    def serve(self, queue: Queue, share: int, now: float) -> None:
        pool, platform, _ = queue
        self._now[pool] = self.place(pool, platform)
        self._come[pool, platform] = self._now[pool] + 1 / share
        self._served_at[queue] = now


def priority_in_line(priority: str, *, of_the_service: bool) -> str:
    """Return the priority by which a run waits; the service's own high orders go before every partner's."""
    return URGENT if of_the_service and priority == "high" else priority


def capped(priority: str, cap: str) -> str:
    """Return the priority that a platform asks for, or the highest that it may have."""
    return max(priority, cap, key=RANKS.__getitem__)


def room(limit: int, at_once: Sequence[int | None]) -> PoolRoom:
    """Compute a pool's room from how many runs each worker does at once; one that does not say leaves the limit.

    What is beyond that would wait in Prefect's queues, where nobody can be preferred any more.
    """
    told = [count for count in at_once if count is not None]
    if not told or len(told) < len(at_once):
        return PoolRoom(limit, limit)
    return PoolRoom(limit, min(limit, RUNS_A_PLACE * sum(told)))


def ceiling(places: int, priority: str) -> int:
    """How many of these places runs of this priority may fill: they leave some to those above them."""
    return places - places // KEPT[priority] if priority in KEPT else places


def own_places(places: int) -> int:
    """How many of a pool's places one platform may fill."""
    return places - places // KEPT_FOR_OTHERS


def rank(priority: str, passed_over_seconds: float) -> int:
    """Rank a queue: what was passed over for long rises, but never up to urgent runs."""
    if priority == URGENT:
        return RANKS[URGENT]
    return max(RANKS["high"], RANKS[priority] - int(passed_over_seconds // PROMOTED_SECONDS))


def choose(
    waiting: Sequence[Waiting], loads: Mapping[Lane, Load], terms: Terms, turns: Turns, batch: int, now: float
) -> list[Lane]:
    """The lanes whose oldest attempts go next, in their order, each as often as it is named. Notes the turns taken.

    `now` is of any clock that only goes forward.

    Of a priority, the platform goes first that has the fewest runs at work for its share; of several, the one whose
    turn it is. Of its own, a platform's higher priority goes first, then what has waited longest.
    """
    open_lanes = terms.in_line(waiting)
    desk, taken, chosen = _Desk(terms), Counter[Lane](), list[Lane]()
    ranks = _ranks(open_lanes, turns, now)
    for lane, load in loads.items():
        desk.add(lane, load, ranks)
    while len(chosen) < batch:
        free = [one for one in open_lanes if taken[one.lane] < len(one.waited_seconds) and desk.has_room(one.lane)]
        if not free:
            break
        lane = min(free, key=lambda one: _key(one, taken[one.lane], desk, turns, ranks)).lane
        turns.serve(_queue(lane), terms.share(lane.platform), now)
        desk.add(lane, Load(), ranks)
        taken[lane] += 1
        chosen.append(lane)
    return chosen


def _queue(lane: Lane) -> Queue:
    return lane.work_pool, lane.platform, lane.priority


def _ranks(waiting: Sequence[Waiting], turns: Turns, now: float) -> dict[Queue, int]:
    """The rank of each queue, by the oldest of it."""
    oldest: dict[Queue, float] = {}
    for one in waiting:
        oldest[_queue(one.lane)] = max(oldest.get(_queue(one.lane), 0.0), one.waited_seconds[0])
    return {queue: rank(queue[2], turns.passed_over(queue, seconds, now)) for queue, seconds in oldest.items()}


def _key(
    one: Waiting, taken: int, desk: "_Desk", turns: Turns, ranks: Mapping[Queue, int]
) -> tuple[int, float, float, int, float, Lane]:
    lane = one.lane
    first = ranks[_queue(lane)]
    held = desk.of_rank[lane.work_pool, lane.platform, first] / desk.terms.share(lane.platform)
    turn = turns.place(lane.work_pool, lane.platform)
    return first, held, turn, RANKS[lane.priority], -one.waited_seconds[taken], lane


@dataclass
class _Desk:
    """Counts what is in flight against everything that bounds it."""

    terms: Terms
    named: Counter[str] = field(default_factory=Counter)
    urgent: Counter[str] = field(default_factory=Counter)
    filled: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # pool, platform or *, of which kind
    of_rank: Counter[tuple[str, str, int]] = field(default_factory=Counter)

    def add(self, lane: Lane, load: Load, ranks: Mapping[Queue, int]) -> None:
        self.named.update(dict.fromkeys(lane.names, load.in_flight))
        for pool in lane.pools:
            there, busy = load.on(pool, lane)
            if lane.priority == URGENT:
                self.urgent[pool] += there
                continue
            for whose in (EVERYTHING, lane.platform):
                self.filled[pool, whose, "in_flight"] += there
                self.filled[pool, whose, "busy"] += busy
        _, busy = load.on(lane.work_pool, lane)
        self.of_rank[lane.work_pool, lane.platform, ranks.get(_queue(lane), RANKS[lane.priority])] += busy

    def has_room(self, lane: Lane) -> bool:
        """Whether one more of the lane fits everywhere."""
        limits = self.terms.limits
        if not self.terms.rooms.keys() >= set(lane.pools):
            return False  # nobody serves such a pool
        if any(self.named[name] >= ceiling(limits[name], lane.priority) for name in lane.names if name in limits):
            return False
        if lane.priority == URGENT:  # in nobody's way and behind nobody, as long as there are not too many of them
            return all(self.urgent[pool] < self.terms.rooms[pool].in_flight for pool in lane.pools)
        return all(filled < ceiling(places, lane.priority) for filled, places in self._bounds(lane))

    def _bounds(self, lane: Lane) -> Iterator[tuple[int, int]]:
        """Return how much is filled of each pool's places, and of those that the platform may have."""
        for pool in lane.pools:
            in_pool = self.terms.rooms[pool]
            for kind, places in (("in_flight", in_pool.in_flight), ("busy", in_pool.busy)):
                yield self.filled[pool, EVERYTHING, kind], places
                yield self.filled[pool, lane.platform, kind], own_places(places)
