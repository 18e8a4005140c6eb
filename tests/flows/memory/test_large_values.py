"""What a run may return."""

from pathlib import Path

import pytest

from domain.rules.outcomes import RESULT_BYTES
from flows.memory.large_values import DamagedValue, KeptValues, plain, result_fault, to_json
from flows.storage import LocalStore

FITS = RESULT_BYTES - len(to_json(""))


@pytest.mark.parametrize("outputs", [{}, {"a": "x" * FITS}, {"a": "x" * (FITS // 2 - 2), "b": "x" * (FITS // 2)}])
def test_result_within_the_limits_is_kept(outputs: dict[str, str]) -> None:
    assert result_fault(outputs) is None


@pytest.mark.parametrize("outputs", [{"a": "x" * (FITS + 1)}, {"b": 1, "a": "é" * (FITS // 5)}])
def test_too_large_result_is_refused_by_the_name_of_its_output(outputs: dict[str, str]) -> None:
    told = result_fault(outputs) or ""
    assert "'a' alone" in told
    assert "at most 1,000,000" in told


@pytest.mark.parametrize("damage", [b"", b"{}", None])
def test_damaged_kept_value_is_never_used(tmp_path: Path, damage: bytes | None) -> None:
    store = LocalStore(tmp_path)
    values, value = KeptValues(store, "run/m1"), {"words": "x" * RESULT_BYTES}
    told = values.dump(value)
    if damage is None:
        store.delete(told["stored"])
    else:
        store.write_bytes(told["stored"], damage)
    with pytest.raises(DamagedValue, match="done again"):
        plain(values.load(told))
    assert values.dump(value) == told  # made again, it is kept anew
    assert plain(values.load(told)) == value


def test_size_of_a_result_counts_kept_values_by_their_content(tmp_path: Path) -> None:
    values = KeptValues(LocalStore(tmp_path), "run/m1")
    kept = values.load(values.dump({"words": "x" * RESULT_BYTES}))
    assert result_fault(plain({"a": kept})) is not None
    small = values.load(values.dump({"words": ["x" * 100] * 400}))
    assert result_fault(plain({"a": small, "b": {"inside": small}})) is None
    assert plain({"a": small}) == {"a": {"words": ["x" * 100] * 400}}
