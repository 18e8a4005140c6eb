"""Generated names: always safe, always unique, close to the sender's where its letters allow."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.handlers.vector.columns import RESERVED, identifiers
from flows.handlers.vector.declarations import IDENTIFIER

HOSTILE = ['x"; drop table a;--', "pg_catalog.pg_authid", "a" * 64, "a" * 65, "' or 1=1", "\0", "select", "GEOM", "fid"]


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.one_of(st.text(max_size=80), st.sampled_from(HOSTILE)), max_size=60))
def test_column_names_are_safe_and_unique(names: list[str]) -> None:
    made = identifiers(names)
    assert len(made) == len(names) == len(set(made))
    assert all(re.fullmatch(IDENTIFIER, name) for name in made)
    assert not RESERVED & set(made)
    assert made == identifiers(names)


@pytest.mark.parametrize(
    ("names", "made"),
    [
        (["Name", "name", "NAME"], ["name", "name_2", "name_3"]),
        (["Größe (m²)", "Straße", "名前"], ["grosse_m2", "strasse", "c_003"]),
        (["2020", "_x_", "", "bbox"], ["c_2020", "x", "c_003", "bbox_2"]),
        (['x"; drop table a;--'], ["x_drop_table_a"]),
        (["name_2", "name", "name"], ["name_2", "name", "name_3"]),
    ],
)
def test_column_names_stay_close_to_the_senders(names: list[str], made: list[str]) -> None:
    assert identifiers(names) == made
