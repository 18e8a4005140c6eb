"""Drawings: every node and edge is there, conditions are labelled, a fan-out is one stack, nothing breaks out."""

import re
from xml.etree import ElementTree

import pytest

from flows.compiler import Plan
from flows.compiler.render import dot, mermaid
from flows.compiler.svg import svg
from tests.flows.compiler.support import plan_of

NODES = """
  start: {type: start, next: way}
  way:
    type: conditional
    condition_field: "{{ inputs.s }}"
    branches:
      - {condition: '== "<b>|&" and != 5', next: each}
      - {default: true, next: one}
  each: {type: fan_out, source: [1, 2], task: {handler: raster.validate, params: {source: a}}, next: all}
  all: {type: fan_in, next: joined}
  one: {handler: echo, next: joined}
  joined: {handler: echo, depends_on: {any_of: [one, all]}, next: end}
  end: {type: end}
"""
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(name="plan")
def _plan() -> Plan:
    return plan_of(NODES, inputs='{s: {type: string, default: "x"}}')


def test_mermaid_drawing_holds_nodes_edges_and_conditions(plan: Plan) -> None:
    drawn = mermaid(plan)
    assert drawn.splitlines()[0] == "flowchart TD"
    assert '    n_start(["start"])' in drawn
    assert '    n_each[["each<br/>each: raster.validate"]]' in drawn
    assert '    n_way -->|"otherwise"| n_one' in drawn
    assert '|"== #34;#60;b#62;#124;#38;#34; and != 5"|' in drawn
    assert "    n_one -.-> n_joined" in drawn
    assert drawn.count("->") == 7


def test_dot_drawing_holds_nodes_edges_and_conditions(plan: Plan) -> None:
    drawn = dot(plan)
    assert drawn.startswith('digraph "test" {')
    assert drawn.endswith("}\n")
    assert '"each" [label="each\\neach: raster.validate", shape=box, peripheries=3];' in drawn
    assert '"way" -> "each" [label="== \\"<b>|&\\" and != 5"];' in drawn
    assert '"one" -> "joined" [label="", style=dashed];' in drawn


def test_svg_is_well_formed_and_complete(plan: Plan) -> None:
    drawn = svg(plan)
    root = ElementTree.fromstring(drawn)  # noqa: S314 - our own drawing
    names = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "name"]
    assert names == list(plan.nodes)
    assert len([path for path in root.iter(f"{SVG}path") if path.get("class", "").startswith("edge")]) == 7
    assert len([rect for rect in root.iter(f"{SVG}rect") if rect.get("class") == "stack"]) == 2
    assert len(list(root.iter(f"{SVG}polygon"))) == 1
    labels = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "label"]
    assert sorted(labels, key=str) == ['== "<b>|&" and != 5', "otherwise"]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", drawn)


def test_svg_puts_every_node_below_its_predecessors(plan: Plan) -> None:
    root = ElementTree.fromstring(svg(plan))  # noqa: S314 - our own drawing
    texts = [text for text in root.iter(f"{SVG}text") if text.get("class") == "name"]
    height = {text.text: float(text.get("y", "0")) for text in texts}
    for node in plan.nodes.values():
        assert all(height[name] < height[node.id] for name in node.predecessors)
    assert len({(text.get("x"), text.get("y")) for text in texts}) == len(texts)


def test_a_long_caption_is_shortened() -> None:
    plan = plan_of(
        NODES.replace("inputs.s }}", "inputs.s ~ inputs.s ~ inputs.s ~ inputs.s }}"), inputs="{s: {type: string}}"
    )
    assert "…" in svg(plan)
