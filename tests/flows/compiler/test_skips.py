"""What may be skipped: the diagrams against brute force, over every combination of decisions of random graphs."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.compiler.checks.subject import Subject
from flows.compiler.diagrams import FALSE, TRUE, Diagrams, TooManyDecisions
from flows.compiler.graph import Graph
from flows.compiler.model import build
from flows.compiler.source import read
from flows.compiler.triggers import RunConditions
from flows.handlers.registry import registry
from tests.flows.compiler.support import faults_of


@st.composite
def graphs(draw: st.DrawFn) -> str:
    """A random workflow of conditionals and tasks, every node after those it follows."""
    size = draw(st.integers(2, 8))
    lines = ["  start: {type: start}"]
    for number in range(1, size + 1):
        before = st.lists(st.integers(0, number - 1), min_size=1, max_size=3, unique=True)
        names = ["start" if other == 0 else f"n{other}" for other in draw(before)]
        rule = draw(st.sampled_from(("all_of", "any_of", "both")))
        all_of, any_of = (names[:1], names[1:]) if rule == "both" else (names, []) if rule == "all_of" else ([], names)
        depends = f"depends_on: {{all_of: [{', '.join(all_of)}], any_of: [{', '.join(any_of)}]}}"
        if number < size and draw(st.booleans()):
            targets = [f"n{draw(st.integers(number + 1, size))}" for _ in range(2)]
            arms = f"condition: 'inputs.n{number} > 0', on_true: {targets[0]}, on_false: {targets[1]}"
            lines.append(f"  n{number}: {{type: conditional, {arms}, {depends}}}")
        else:
            when = f"when: 'inputs.n{number} > 0', " if draw(st.booleans()) else ""
            lines.append(f"  n{number}: {{handler: echo, {when}{depends}}}")
    return "nodes:\n" + "\n".join(lines)


def subject_of(text: str) -> Subject:
    model, _ = build(read(text, "test"))
    return Subject(model, registry(), {})


def running(subject: Subject, decisions: dict[str, bool]) -> set[str]:
    """The nodes that run under these decisions, by the rule of the language and nothing else."""
    ran: set[str] = set()
    for name in subject.graph.order:
        into = subject.graph.into[name]
        any_of = {edge.source for edge in into if edge.kind == "any_of"}
        all_of = {edge.source for edge in into} - any_of
        active = {source for source in any_of | all_of if source in ran and chooses(subject, source, name, decisions)}
        triggered = all(group & active for group in (all_of, any_of) if group)
        node = subject.model.nodes[name]
        if triggered and ("when" not in node.raw or decisions[name]):
            ran.add(name)
    return ran


def chooses(subject: Subject, source: str, target: str, decisions: dict[str, bool]) -> bool:
    node = subject.model.nodes[source]
    arms = {True: node.raw.get("on_true"), False: node.raw.get("on_false")}
    return node.type != "conditional" or target not in arms.values() or arms[decisions[source]] == target


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_diagrams_agree_with_every_combination_of_decisions(text: str) -> None:
    subject = subject_of(text)
    runs = RunConditions(subject.model, subject.graph)
    deciding = [node.id for node in subject.model.nodes.values() if node.type == "conditional" or "when" in node.raw]
    worlds = [
        running(subject, dict(zip(deciding, values, strict=True)))
        for values in product((True, False), repeat=len(deciding))
    ]
    for reader, read_node in product(subject.model.nodes, repeat=2):
        lacking = any(reader in ran and read_node not in ran for ran in worlds)
        assert runs.may_lack(read_node, runs.running[reader]) == lacking, (reader, read_node)


def test_diagrams_are_boolean_algebra() -> None:
    table = Diagrams()
    a, b = table.variable(), table.variable()
    assert table.both(a, TRUE) == table.both(TRUE, a) == table.both(a, a) == table.either(a, FALSE) == a
    assert table.both(a, FALSE) == table.without(a, a) == table.without(FALSE, a) == table.without(a, TRUE) == FALSE
    assert table.either(a, TRUE) == table.either(TRUE, b) == TRUE
    assert table.either(FALSE, b) == table.either(b, b) == table.without(b, FALSE) == b
    not_a = table.without(TRUE, a)
    assert table.either(a, not_a) == TRUE
    assert table.both(a, not_a) == FALSE
    assert table.either(table.both(a, b), table.both(not_a, b)) == b
    assert table.both(a, b) == table.both(b, a)


def test_too_complex_decisions_are_given_up_and_not_guessed() -> None:
    table = Diagrams(budget=5)
    pairs = [(table.variable(), table.variable()) for _ in range(3)]
    eithers = [table.either(*pair) for pair in pairs]
    with pytest.raises(TooManyDecisions):
        table.both(eithers[0], table.both(eithers[1], eithers[2]))


def test_more_decisions_than_can_be_answered_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """workflow_id: test
version: 1
inputs: {n: {type: integer, default: 1}}
nodes:
  start: {type: start, next: [a, b, end]}
  a: {handler: echo, when: "inputs.n > 1", next: c}
  b: {handler: echo, when: "inputs.n > 2", next: c}
  c: {handler: echo, params: {x: "{{ nodes.a.output.echoed_params }}"}, next: end}
  end: {type: end}
"""
    assert faults_of(text) == [("may-be-skipped", 8, 34)]
    monkeypatch.setattr(Diagrams.__init__, "__defaults__", (0,))
    assert faults_of(text) == []


def test_long_chain_of_decisions_is_solved() -> None:
    chain = "\n".join(f"  n{k}: {{handler: echo, when: 'true', depends_on: n{k - 1}}}" for k in range(1, 1500))
    last = '  z: {handler: echo, depends_on: n1499, params: {x: "{{ nodes.n1498.output }}"}, next: end}'
    first = "  start: {type: start, next: n0}\n  n0: {handler: echo}"
    text = f"workflow_id: test\nversion: 1\nnodes:\n{first}\n{chain}\n{last}\n  end: {{type: end}}\n"
    assert faults_of(text) == []


def test_a_long_cycle_is_listed_by_its_ends() -> None:
    nodes = "\n".join(f"  n{k}: {{handler: echo, next: n{(k + 1) % 30}}}" for k in range(30))
    subject = subject_of(f"nodes:\n{nodes}\n")
    (back,) = subject.graph.back_edges
    assert back.cycle == (*(f"n{k}" for k in range(10)), "…", "n29")


def test_node_order_follows_the_file_where_edges_allow() -> None:
    subject = subject_of("nodes:\n  c: {handler: echo, depends_on: b}\n  a: {handler: echo}\n  b: {handler: echo}\n")
    assert Graph(subject.model.nodes, subject.model.known_edges).order == ["a", "b", "c"]
