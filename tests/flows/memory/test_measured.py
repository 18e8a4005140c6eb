"""What tries have measured: a line for each, summed over all processes of a run, each counted once."""

from pathlib import Path

import pytest

from domain.contracts.runs import MOST_METRICS
from flows.memory import measured
from flows.memory.ledger import Ledger
from flows.storage import LocalStore

MEMORY = "run/m1"


def ledger(root: Path, writer: str) -> Ledger:
    return Ledger(LocalStore(root), MEMORY, writer)


def test_tries_of_all_processes_are_summed_and_a_line_that_was_written_twice_counts_once(tmp_path: Path) -> None:
    first, second = ledger(tmp_path, "a"), ledger(tmp_path, "b")
    for again in range(2):
        first.measure("tiles__1", "w1", 1.0, {"tokens": 3.0})
        assert again in {0, 1}
    first.measure("tiles__1", "w1", 2.0, {"tokens": 4.0})  # its next try
    second.measure("tiles__2", "w2", 1.0, {"tokens": 5.0, "features": 1.0})
    assert measured.sums(LocalStore(tmp_path), MEMORY) == {"features": 1.0, "tokens": 12.0}
    assert first.has_measured
    assert not ledger(tmp_path, "c").has_measured


def test_unreadable_line_or_sum_is_left_out(tmp_path: Path) -> None:
    kept = ledger(tmp_path, "a")
    kept.measure("n", "w", 1.0, {"good": 1.0, "huge": 1e308})
    kept.measure("n", "w", 2.0, {"huge": 1e308})
    file = tmp_path / MEMORY / "ledger" / measured.MEASURED / "a.jsonl"
    file.write_bytes(file.read_bytes() + b'{"half a line\n[]\n{"metrics": 1}\n')
    assert measured.sums(LocalStore(tmp_path), MEMORY) == {"good": 1.0}


def test_names_beyond_what_a_run_may_have_are_left_out(tmp_path: Path) -> None:
    ledger(tmp_path, "a").measure("n", "w", 1.0, {f"n{number:03}": 1.0 for number in range(MOST_METRICS + 5)})
    assert len(measured.sums(LocalStore(tmp_path), MEMORY)) == MOST_METRICS


@pytest.mark.parametrize(
    ("name", "value", "is_one"),
    [("tokens", 1, True), ("a.b_c", -0.5, True), ("a b", 1, False), ("", 1, False), ("1a", 1, False),
     ("x" * 64, 1, False), ("tokens", float("nan"), False), ("tokens", float("inf"), False)],
)  # fmt: skip
def test_metric_has_a_plain_name_and_a_number(name: str, value: float, is_one: bool) -> None:
    assert measured.is_metric(name, value) is is_one
