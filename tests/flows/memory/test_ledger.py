"""What a run remembers, and what a kill in the middle of a line leaves of it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.compiler import State
from flows.memory.ledger import NODES, Ledger, LedgerEntry, digest, latest, read
from flows.storage import LocalStore

MEMORY = "run/m1"


def entry(
    node: str = "n", index: int | None = None, state: State = State.COMPLETED, at: float = 1.0, **params: int
) -> LedgerEntry:
    return LedgerEntry(
        node=node,
        digest=digest("echo", params),
        state=state.value,
        tries=1,
        worker="w",
        started_at=at,
        ended_at=at,
        index=index,
        key=None if index is None else f"key {index}",
        output={"value": {"n": index}} if state is State.COMPLETED else None,
    )


def ledger(root: Path, writer: str = "a") -> Ledger:
    return Ledger(LocalStore(root), MEMORY, writer)


def test_a_node_that_succeeded_is_remembered_by_the_next_attempt(tmp_path: Path) -> None:
    ledger(tmp_path).record(entry(a=1))
    again = ledger(tmp_path, "b").node_outcome("n", digest("echo", {"a": 1}))
    assert again is not None
    assert (again.state, again.output) == (State.COMPLETED, {"n": None})


def test_node_with_other_parameters_or_handler_or_a_failure_is_not_remembered(tmp_path: Path) -> None:
    ledger(tmp_path).record(entry(a=1))
    ledger(tmp_path).record(entry("failed", state=State.FAILED, a=1))
    again = ledger(tmp_path, "b")
    assert again.node_outcome("n", digest("echo", {"a": 2})) is None
    assert again.node_outcome("n", digest("sleep", {"a": 1})) is None
    assert again.node_outcome("failed", digest("echo", {"a": 1})) is None
    assert again.node_outcome("unknown", digest("echo", {"a": 1})) is None


def test_items_of_all_processes_are_read_together(tmp_path: Path) -> None:
    for number, writer in enumerate("abc"):
        ledger(tmp_path, writer).record(entry("tiles", number))
    remembered = ledger(tmp_path, "d").completed_items("tiles")
    assert set(remembered) == {"key 0", "key 1", "key 2"}
    found = ledger(tmp_path).item_outcome(remembered, "key 2", digest("echo", {}))
    assert found is not None
    assert found.output == {"n": 2}


@given(st.integers(min_value=0, max_value=400))
def test_truncated_ledger_line_is_ignored(cut: int) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        root = Path(folder)
        for number in range(2):
            ledger(root).record(entry("tiles", number))
        file = root / MEMORY / "ledger/tiles/a.jsonl"
        whole = file.read_bytes()
        kept = whole[: min(cut, len(whole))]
        file.write_bytes(kept)
        assert len(list(read(LocalStore(root), MEMORY, "tiles"))) == kept.count(b"\n")
        ledger(root, "b").record(entry("tiles", 7))  # the next process has a file of its own
        assert "key 7" in ledger(root).completed_items("tiles")


@pytest.mark.parametrize(
    ("spoiled", "lost"),
    [
        (b'{"node": "ti', {"key 2"}),  # with which the next one becomes one line
        (b"null\n", set()),
        (b"[]\n", set()),
        (b'{"node": "tiles"}\n', set()),
        (b"\xff\xfe\n", set()),
        (b"\n", set()),
    ],
)
def test_malformed_ledger_line_costs_only_its_own_entry(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoiled: bytes, lost: set[str]
) -> None:
    file = f"{MEMORY}/ledger/tiles/a.jsonl"
    for number in range(2):
        ledger(tmp_path).record(entry("tiles", number))
    LocalStore(tmp_path).append(file, spoiled)
    for number in range(2, 4):
        ledger(tmp_path).record(entry("tiles", number))
    assert set(ledger(tmp_path, "b").completed_items("tiles")) == {f"key {number}" for number in range(4)} - lost
    assert [(one.message[:22], vars(one)["line"]) for one in caplog.records] == [("line of a run's memory", 3)]


class Full(LocalStore):
    """A disk that takes half of the second line, and all of those after it."""

    appends = 0

    def append(self, name: str, content: bytes) -> None:
        Full.appends += 1
        if Full.appends == 2:
            super().append(name, content[: len(content) // 2])
            raise OSError(28, "No space left on device")
        super().append(name, content)


def test_half_written_ledger_line_does_not_spoil_later_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Full, "appends", 0)
    written = Ledger(Full(tmp_path), MEMORY, "a")
    written.record(entry("tiles", 0))
    with pytest.raises(OSError, match="No space"):
        written.record(entry("tiles", 1))
    for number in range(2, 4):
        written.record(entry("tiles", number))
    assert set(ledger(tmp_path, "b").completed_items("tiles")) == {"key 0", "key 2", "key 3"}


def test_success_outweighs_failures_and_later_entries_earlier_ones() -> None:
    entries = [
        entry("t", 1, State.COMPLETED, at=1),
        entry("t", 1, State.FAILED, at=5),
        entry("t", 0, State.FAILED, at=1),
        entry("t", 0, State.FAILED, at=2),
    ]
    assert [(one.index, one.state, one.ended_at) for one in latest(iter(entries))] == [
        (0, "failed", 2),
        (1, "completed", 1),
    ]


def test_large_outputs_are_stored_beside_the_ledger_and_small_ones_in_it(tmp_path: Path) -> None:
    first = ledger(tmp_path)
    small, large = first.values.dump({"a": 1}), first.values.dump({"a": "x" * 20_000})
    assert small == {"value": {"a": 1}}
    assert set(large) == {"stored"}
    assert dict(first.values.load(large)) == {"a": "x" * 20_000}
    assert first.values.dump(first.values.load(large)) == large


def test_partner_data_shaped_like_a_reference_is_not_followed(tmp_path: Path) -> None:
    values = ledger(tmp_path).values
    sent = {"stored": "other-run/m1/values/secret.json"}
    assert values.load(values.dump(sent)) == sent


def test_nodes_and_items_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    ledger(tmp_path).record(entry("tiles", 0))
    ledger(tmp_path).record(entry("tiles"))
    store = LocalStore(tmp_path)
    assert [one.index for one in read(store, MEMORY, "tiles")] == [0]
    assert [one.index for one in read(store, MEMORY, NODES)] == [None]


def test_ledger_writer_begins_another_file_before_the_stores_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.memory.ledger.LINES_A_FILE", 3)
    written = ledger(tmp_path)
    for index in range(8):
        written.record(entry(index=index, at=index))
    assert LocalStore(tmp_path).names(f"{MEMORY}/ledger/n") == [
        f"{MEMORY}/ledger/n/{name}.jsonl" for name in ("a-1", "a-2", "a")
    ]
    assert [one.index for one in latest(read(LocalStore(tmp_path), MEMORY, "n"))] == list(range(8))
