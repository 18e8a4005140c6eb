"""The one layout of graphs: layers behind what they depend on, one spot for each node, and few crossings."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from flows.compiler.layers import GraphLayout, Spot, laid_out

Graph = dict[str, list[str]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Nodes in an order in which each is behind its predecessors."""
    names = [f"n{number}" for number in range(draw(st.integers(0, 12)))]
    return {
        name: draw(st.lists(st.sampled_from(names[:number]), unique=True, max_size=3)) if number else []
        for number, name in enumerate(names)
    }


def crossings(graph: Graph, layout: GraphLayout) -> int:
    edges = [(layout.spots[source], layout.spots[target]) for target, sources in graph.items() for source in sources]
    return sum(
        (one[0].place - other[0].place) * (one[1].place - other[1].place) < 0
        for one, other in combinations(edges, 2)
        if one[0].layer == other[0].layer and one[1].layer == other[1].layer
    )


@given(graphs())
def test_each_node_has_a_spot_of_its_own_just_behind_its_predecessors(graph: Graph) -> None:
    layout = laid_out(graph)
    assert layout.spots.keys() == graph.keys()
    for one, other in combinations(layout.spots.values(), 2):
        assert one.layer != other.layer or abs(one.place - other.place) >= 1
    for name, sources in graph.items():
        assert layout.spots[name].layer == 1 + max((layout.spots[each].layer for each in sources), default=-1)
    assert all(0 <= spot.layer < layout.layers and 0 <= spot.place < layout.longest for spot in layout.spots.values())


def test_a_short_layer_stands_in_the_middle_of_the_longest() -> None:
    layout = laid_out({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})
    assert layout.spots == {"a": Spot(0, 0.5), "b": Spot(1, 0.0), "c": Spot(1, 1.0), "d": Spot(2, 0.5)}
    assert (layout.layers, layout.longest) == (3, 2)


def test_edges_do_not_cross_needlessly() -> None:
    graph: Graph = {"a": [], "b": [], "c": [], "x": ["c"], "y": ["b"], "z": ["a"], "end": ["x", "y", "z"]}
    assert crossings(graph, laid_out(graph)) == 0


def test_unknown_names_and_empty_graphs_do_no_harm() -> None:
    assert laid_out({"a": ["elsewhere"]}).spots == {"a": Spot(0, 0.0)}
    assert laid_out({}) == GraphLayout({}, 0, 0)
