"""Identities: the same for the same, different for the rest."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules.identity import asset_id, fingerprint, parsed_refs, ref_faults

REFS = st.dictionaries(st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8), min_size=1, max_size=4)


def test_asset_id_follows_the_published_formula() -> None:
    text = 'ddh|{"dataset_id": "a", "resource_id": "b"}'
    assert asset_id("ddh", {"resource_id": "b", "dataset_id": "a"}) == hashlib.sha256(text.encode()).hexdigest()[:32]


@given(REFS, REFS)
def test_an_asset_id_depends_on_refs_and_platform_alone(refs: dict[str, str], other: dict[str, str]) -> None:
    backwards = dict(reversed(refs.items()))
    assert asset_id("ddh", refs) == asset_id("ddh", backwards)
    assert (asset_id("ddh", refs) == asset_id("ddh", other)) is (refs == other)
    assert asset_id("ddh", refs) != asset_id("arcgis", refs)


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=5))
def test_a_fingerprint_ignores_the_order_of_fields(content: dict[str, object]) -> None:
    assert fingerprint(content) == fingerprint(dict(reversed(content.items())))
    assert fingerprint(content) != fingerprint({**content, "one more field": True})


def test_every_wrong_ref_is_named() -> None:
    faults = ref_faults({"a": "1", "colour": "red"}, ["a", "b"], ["c"])
    assert faults == ["b is missing", "colour is not a reference of this platform (it knows a, b, c)"]
    assert ref_faults({"a": "1", "b": "2"}, ["a", "b"], ["c"]) == []


@given(st.dictionaries(st.text(max_size=5).filter(lambda name: "=" not in name), st.text(max_size=5), max_size=4))
def test_written_refs_are_read_back_unchanged(refs: dict[str, str]) -> None:
    written = [f"{name}={value}" for name, value in refs.items()]
    assert parsed_refs(written) == parsed_refs(written * 2) == refs


def test_malformed_or_repeated_ref_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'colour' is not name=value"):
        parsed_refs(["a=1", "colour"])
    with pytest.raises(ValueError, match="'a' is given two values"):
        parsed_refs(["a=1", "b=1", "a=2"])
