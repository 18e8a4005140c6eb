"""Runs, requests, attempts and revisions change their states through one gate; lists of states come from the tables.

The gate is `domain/models/transitions.py`, the tables are `domain/rules/lifecycle.py`. What is refused elsewhere: an
assignment to a state, a row that begins in another state than its table's, an update or insert that names a state, in
SQL too, and a list of states that is written a second time.
"""

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import get_args

import pytest

from domain.contracts.runs import NodeState
from domain.rules import lifecycle
from domain.rules.callbacks import CallbackState

REPOSITORY = Path(__file__).resolve().parents[2]
ROOMS = ("domain", "gateway")  # others cannot know these rows, by `lint-imports`
GATE, TABLES = "domain/models/transitions.py", "domain/rules/lifecycle.py"
COLUMNS = {"state", "status", "approval", "processing"}
MODELS = {"Run", "Request", "Attempt", "Revision"}
INITIAL = {"RUN.initial", "REQUEST.initial", "ATTEMPT.initial", "REVIEW.initial"}
SETS_WHAT_IT_IS_TOLD = {"domain/repositories/platforms.py"}  # columns of platforms, by their names
STATES = (lifecycle.RunState, lifecycle.RequestState, lifecycle.AttemptState, lifecycle.Approval)
EVENTS = (lifecycle.RunEvent, lifecycle.RequestEvent, lifecycle.AttemptEvent, lifecycle.ReviewEvent)
LISTS = {
    frozenset(f"{type(state).__name__}.{state.name}" for state in states)
    for states in vars(lifecycle).values()
    if isinstance(states, tuple) and all(isinstance(state, StrEnum) for state in states)
}
WORDS = {state.value for states in (*STATES, CallbackState) for state in states} | set(get_args(NodeState))

# Nodes (`n` in SQL) and callbacks have states of their own, and no table.
OF_CALLBACKS = "domain/models/callbacks.py"
OURS = r"app\.(?:runs|requests|attempts|revisions)\b"
COLUMN = r"\b(?:state|status|approval|processing)\b"
LIST = re.compile(rf"(?<!\bn\.){COLUMN}\s+(?:not\s+)?in\s*\(\s*'")
WRITE = re.compile(rf"\bset\b(?:(?!\bwhere\b|\bfrom\b).)*?{COLUMN}\s*=(?!\s*\{{sql_after\}})", re.DOTALL)
INSERT = re.compile(rf"insert into {OURS}\s*\([^)]*{COLUMN}[^)]*\)")
WORD = re.compile(rf"{COLUMN}\s*(?:=|<>)\s*'([^'{{]*)'")


def past_the_gate(source: str, path: str = "") -> Iterator[tuple[int, str]]:
    """What of the source changes a state by itself, or has a list of states or a word for one of its own."""
    tree = ast.parse(source)
    pieces = {id(piece) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for piece in ast.walk(node)}
    updated = {id(call) for node in ast.walk(tree) if isinstance(node, ast.Call) for call in _chain(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=column, ctx=ast.Store()) if column in COLUMNS:
                yield node.lineno, "assigned"
            case ast.Call(func=ast.Name(id="setattr"), args=[_, name, _]):
                named = name.value if isinstance(name, ast.Constant) else None
                if named in COLUMNS or (named is None and path not in SETS_WHAT_IT_IS_TOLD):
                    yield node.lineno, "assigned"
            case ast.Call(func=ast.Name(id=model)) if model in MODELS:
                if any(word.arg in COLUMNS and ast.unparse(word.value) not in INITIAL for word in node.keywords):
                    yield node.lineno, "begun"
            case ast.Call(func=ast.Name(id="update" | "insert"), args=[ast.Name(id=model), *_]) if model in MODELS:
                if id(node) not in updated:
                    yield node.lineno, "updated"
            case ast.Tuple() | ast.Set() | ast.List() if frozenset(map(ast.unparse, node.elts)) in LISTS:
                yield node.lineno, "listed"
            case ast.JoinedStr() | ast.Constant(value=str()) if id(node) not in pieces or isinstance(
                node, ast.JoinedStr
            ):
                yield from ((node.lineno, fault) for fault in _faults_of_sql(_text(node)))
            case _:
                pass


def _chain(call: ast.Call) -> Iterator[ast.Call]:
    """The `update(Model)` that this `.values(...)` belongs to, if every column that it names can be read, and is none
    of ours.
    """
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "values" or call.args:
        return
    if any(word.arg is None or word.arg in COLUMNS for word in call.keywords):
        return
    below: ast.expr = call.func.value
    while isinstance(below, ast.Call):
        yield below
        below = below.func.value if isinstance(below.func, ast.Attribute) else below.func


def _text(node: ast.JoinedStr | ast.Constant) -> str:
    """The string, with the names of the functions whose answers are spliced in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "".join(
        str(piece.value) if isinstance(piece, ast.Constant) else f"{{{_called(piece)}}}" for piece in node.values
    )


def _called(piece: ast.expr) -> str:
    match piece:
        case ast.FormattedValue(value=ast.Call(func=ast.Name(id=name))):
            return name
        case _:
            return ""


def _faults_of_sql(text: str) -> Iterator[str]:
    if LIST.search(text) and "app.callbacks" not in text:
        yield "listed"
    if re.search(rf"update {OURS}", text) and WRITE.search(text.partition("update app.")[2]):
        yield "updated"
    if INSERT.search(text):
        yield "begun"
    if set(WORD.findall(text)) - WORDS:
        yield "no word"


def files() -> Iterator[tuple[str, str]]:
    for file in sorted(file for room in ROOMS for file in (REPOSITORY / room).rglob("*.py")):
        name = file.relative_to(REPOSITORY).as_posix()
        if (
            name not in {GATE, TABLES, OF_CALLBACKS} and "/migrations/versions/" not in name
        ):  # migrations are as they were
            yield name, file.read_text()


def test_states_change_through_the_gate_and_lists_of_them_come_from_the_tables() -> None:
    sources = dict(files())
    assert len(sources) > 200
    found = [(name, *fault) for name, source in sources.items() for fault in past_the_gate(source, name)]
    # The gateway has no such rows: a `status` that it assigns is HTTP's.
    assert [fault for fault in found if not (fault[0].startswith("gateway/") and fault[2] == "assigned")] == []


def test_every_event_is_used() -> None:
    used = {
        ast.unparse(node)
        for name, source in files()
        if name.startswith("domain/")
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
    }
    assert {f"{type(event).__name__}.{event.name}" for events in EVENTS for event in events} - used == set()


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("run.state = RunState.FAILED", "assigned"),
        ("request.status, request.result = status, None", "assigned"),
        ("revision.approval: Approval = decided", "assigned"),
        ("setattr(revision, 'processing', status)", "assigned"),
        ("setattr(run, name, state)", "assigned"),
        ("Attempt(run_id=run_id, state=AttemptState.SENT)", "begun"),
        ("Attempt(run_id=run_id, state=ATTEMPT.initial)", None),
        ("update(Run).where(Run.run_id == run_id).values(state=RunState.FAILED)", "updated"),
        ("update(Run).where(Run.run_id == run_id).values(**values)", "updated"),
        ("update(Run).where(Run.run_id == run_id).values({'state': 'failed'})", "updated"),
        ("update(Run).where(Run.run_id == run_id).values(priority=priority)", None),
        ("update(Callback).values(state=CallbackState.DISABLED)", None),
        ("OPEN = {RunState.RUNNING, RunState.PENDING}", "listed"),
        ("OPEN = (RequestState.COMPLETED, RequestState.FAILED)", None),
        ("text('select from app.attempts where state in (\\'ready\\', \\'sending\\')')", "listed"),
        ("text(f'select from app.attempts where state not in (\\'ready\\') and pool = {pool}')", "listed"),
        ("text(f'select from app.attempts where state in {sql_list(LIVE_ATTEMPTS)}')", None),
        ("text('select from app.run_nodes n where n.state in (\\'running\\')')", None),
        ("text('select from app.callbacks where state in (\\'ready\\')')", None),
        ("text('update app.attempts set state = \\'sent\\', sent_at = now() where number = 1')", "updated"),
        ("text('update app.attempts set sent_at = now(), state = :state where number = 1')", "updated"),
        ("text(f'update app.attempts a set state = {state} where number = 1')", "updated"),
        ("text(f'update app.attempts set state = {sql_after(ATTEMPT, event)}, sent_at = now()')", None),
        ("text('update app.attempts set sent_at = now() where state = \\'sending\\'')", None),
        ("text('insert into app.runs (run_id, state) values (:run_id, :state)')", "begun"),
        ("text('insert into app.runs (run_id, inputs) values (:run_id, :inputs)')", None),
        ("text('select from app.runs where state = \\'canceled\\'')", "no word"),
    ],
)
def test_change_past_the_gate_is_found_by_its_line(line: str, fault: str | None) -> None:
    assert list(past_the_gate(f"def work():\n    {line}")) == ([] if fault is None else [(2, fault)])
