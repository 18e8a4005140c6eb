"""Where the nodes of a graph stand in a drawing: in layers, each behind all that it depends on.

Pure: names in, places out. Workflows are drawn from top to bottom, the console's run graphs from left to right.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

_SWEEPS = 4


@dataclass(frozen=True)
class Spot:
    """A node's layer, and its place along the layer. Short layers stand in the middle, so a place may be a half."""

    layer: int
    place: float


@dataclass(frozen=True)
class GraphLayout:
    """Where every node stands, how many layers there are, and how many nodes the longest one has."""

    spots: Mapping[str, Spot]
    layers: int
    longest: int


def laid_out(predecessors: Mapping[str, Iterable[str]]) -> GraphLayout:
    """The layout of a graph whose nodes come behind all of their predecessors. Names of no node are passed over."""
    edges = {name: [other for other in others if other in predecessors] for name, others in predecessors.items()}
    layers = _layers(edges)
    longest = max(map(len, layers), default=0)
    spots = {
        name: Spot(number, (longest - len(layer)) / 2 + index)
        for number, layer in enumerate(layers)
        for index, name in enumerate(layer)
    }
    return GraphLayout(spots, len(layers), longest)


def _layers(edges: Mapping[str, list[str]]) -> list[list[str]]:
    """The names by layer, ordered so that edges cross little."""
    number: dict[str, int] = {}
    grouped: dict[int, list[str]] = defaultdict(list)
    near: dict[str, list[str]] = defaultdict(list)
    for name, others in edges.items():
        number[name] = 1 + max((number[other] for other in others), default=-1)
        grouped[number[name]].append(name)
        for other in others:
            near[name].append(other)
            near[other].append(name)
    layers = [grouped[each] for each in sorted(grouped)]
    for _ in range(_SWEEPS):
        for order in (layers, layers[::-1]):
            _straighten(order, near)
    return layers


def _straighten(layers: list[list[str]], near: Mapping[str, list[str]]) -> None:
    """Put each node of a layer beside the middle of those it is tied to in the layer before."""
    for before, layer in pairwise(layers):
        place = {name: index - len(before) / 2 for index, name in enumerate(before)}
        middle = {name: _mean([place[other] for other in near.get(name, ()) if other in place]) for name in layer}
        layer.sort(key=middle.__getitem__)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
