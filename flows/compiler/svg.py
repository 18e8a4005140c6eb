"""A plan as a drawing: layers from top to bottom, written here, so that no network or tool is needed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

from flows.compiler.layers import Spot, laid_out
from flows.compiler.plan import Node, Plan
from flows.compiler.render import DrawnEdge, caption, links
from flows.pools import POOLS

BOX_WIDTH, BOX_HEIGHT = 190, 46
GAP_X, GAP_Y, MARGIN = 36, 54, 24
_LONGEST_TEXT = 27

_STYLE = """
    text { font: 12px sans-serif; text-anchor: middle; fill: #1d2733 }
    .name { font-weight: 600 } .what, .label { font-size: 10px; fill: #51606f }
    .box { fill: #fff; stroke: #51606f } .stack { fill: #e8eef4; stroke: #51606f }
    .edge { fill: none; stroke: #51606f; marker-end: url(#arrow) } .any { stroke-dasharray: 5 4 }
    .label { paint-order: stroke; stroke: #fff; stroke-width: 4px }
"""
_AWAY = " .{name} .box {{ fill: #fdf1e3 }}"  # what is done on another pool than the run's usual one
_ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#51606f"/></marker>'
)


@dataclass(frozen=True)
class Centre:
    """Where the middle of a node's box is."""

    x: float
    y: float


def svg(plan: Plan) -> str:
    """The plan as a self-contained SVG document."""
    layout = laid_out({node.id: node.predecessors for node in plan.nodes.values()})
    centres = {name: _centre(spot) for name, spot in layout.spots.items()}
    width = 2 * MARGIN + layout.longest * (BOX_WIDTH + GAP_X)
    height = 2 * MARGIN + layout.layers * (BOX_HEIGHT + GAP_Y)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    style = _STYLE + "".join(_AWAY.format(name=name) for name in POOLS if name != POOLS.home)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(plan.name)}</title><style>{style}</style><defs>{_ARROW}</defs>",
        *(_edge(link, centres) for link in links(plan)),
        *(_node(node, centres[node.id]) for node in plan.nodes.values()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _centre(spot: Spot) -> Centre:
    x = MARGIN + (spot.place + 0.5) * (BOX_WIDTH + GAP_X)
    return Centre(x, MARGIN + spot.layer * (BOX_HEIGHT + GAP_Y) + BOX_HEIGHT / 2)


def _edge(link: DrawnEdge, centres: Mapping[str, Centre]) -> str:
    start, end = centres[link.source], centres[link.target]
    top, bottom = start.y + BOX_HEIGHT / 2, end.y - BOX_HEIGHT / 2
    middle = (top + bottom) / 2
    kind = "edge any" if link.any_of else "edge"
    curve = f"M{start.x:.0f} {top:.0f} C{start.x:.0f} {middle:.0f} {end.x:.0f} {middle:.0f} {end.x:.0f} {bottom:.0f}"
    label = f'<text class="label" x="{(start.x + end.x) / 2:.0f}" y="{middle:.0f}">{_text(link.label)}</text>'
    return f'<path class="{kind}" d="{curve}"/>{label if link.label else ""}'


def _node(node: Node, centre: Centre) -> str:
    shapes = "".join(_shapes(node, centre))
    name = f'<text class="name" x="{centre.x:.0f}" y="{centre.y - 3:.0f}">{_text(node.id)}</text>'
    what = f'<text class="what" x="{centre.x:.0f}" y="{centre.y + 13:.0f}">{_text(caption(node))}</text>'
    tip = f"<title>{escape(node.id)}: {escape(caption(node))}</title>"
    return f'<g class="{node.type} {node.pool or ""}">{tip}{shapes}{name}{what}</g>'


def _shapes(node: Node, centre: Centre) -> Iterator[str]:
    """The outline: a stack for a fan-out, a lozenge for a conditional, round ends for start and end."""
    left, top = centre.x - BOX_WIDTH / 2, centre.y - BOX_HEIGHT / 2
    size = f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}"'
    for offset in (8, 4) if node.fan_out else ():
        yield f'<rect class="stack" x="{left + offset:.0f}" y="{top - offset:.0f}" {size} rx="4"/>'
    if node.choice:
        right, bottom = left + BOX_WIDTH, top + BOX_HEIGHT
        corners = f"{left - 14:.0f},{centre.y:.0f} {left:.0f},{top:.0f} {right:.0f},{top:.0f} "
        corners += f"{right + 14:.0f},{centre.y:.0f} {right:.0f},{bottom:.0f} {left:.0f},{bottom:.0f}"
        yield f'<polygon class="box" points="{corners}"/>'
    else:
        radius = BOX_HEIGHT / 2 if node.type in ("start", "end") else 4
        yield f'<rect class="box" x="{left:.0f}" y="{top:.0f}" {size} rx="{radius:.0f}"/>'


def _text(text: str) -> str:
    return escape(text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…")
