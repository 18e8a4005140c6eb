"""Names of files: whatever a name is made of, the same is read from it again, and from no other name."""

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules import places
from domain.rules.strays import Owner, OwnerKind, owner

ASSETS = st.text("0123456789abcdef", min_size=32, max_size=32)
NUMBERS = st.integers(1, 999_999_999)
FILES = st.sampled_from(["a", "rows/00000.copy", ".partial-x", "m1/a2/x"])
READERS = (places.revision_of, places.run_of, places.rememberer_of, places.copies_of, places.noted_copies_of)


@given(ASSETS, NUMBERS, NUMBERS, NUMBERS, FILES)
def test_files_of_a_revision_are_of_its_attempt(
    asset: str, ordinal: int, revision: int, attempt: int, file: str
) -> None:
    home = places.revision_home(asset, ordinal, revision)
    name = f"{places.attempt_folder(home, attempt)}/{file}"
    key = f"{asset}/{ordinal}-r{revision}"
    assert [read(name) for read in READERS] == [key, None, None, None, None]
    assert places.attempt_in(home, name) == attempt
    assert places.attempt_in(f"{home}0", name) is places.attempt_in(home[:-1], name) is None
    for zone, own in (("silver", name), ("runs", name), ("bronze", f"{places.QUARANTINE}{name}")):
        assert owner(zone, own) == Owner(OwnerKind.REVISION, key)
    assert owner("bronze", name) is None, "so whoever uploads may call it"
    assert home.startswith(f"{places.asset_home(asset)}/")


@given(st.uuids(), NUMBERS, FILES)
def test_files_of_a_run_are_of_its_attempt(run: UUID, attempt: int, file: str) -> None:
    home = places.run_home(run)
    name = f"{places.attempt_folder(home, attempt)}/{file}"
    assert [read(name) for read in READERS] == [None, str(run), None, None, None]
    assert places.attempt_in(home, name) == attempt
    assert owner("silver", name) == owner("runs", name) == Owner(OwnerKind.RUN, str(run))


@given(st.uuids(), NUMBERS, FILES)
def test_files_of_a_memory_are_of_its_generation(run: UUID, generation: int, file: str) -> None:
    name = f"{places.memory_folder(run, generation)}/{file}"
    assert [read(name) for read in READERS] == [None, None, str(run), None, None]
    assert places.generation_in(str(run), name) == generation
    assert places.attempt_in(str(run), name) is None
    assert owner("runs", name) == Owner(OwnerKind.RUN, str(run))
    assert owner("silver", name) is None


@given(ASSETS, NUMBERS, NUMBERS, FILES)
def test_copies_and_notes_about_them_are_of_their_export(asset: str, ordinal: int, revision: int, file: str) -> None:
    copies = places.copies_folder(asset, ordinal, revision, uuid4().hex)
    assert [read(f"{copies}/{file}") for read in READERS] == [None, None, None, copies, None]
    assert owner("external", f"{copies}/{file}") == Owner(OwnerKind.EXPORT, copies)
    for note in (places.withdrawal_note(copies), places.pipeline_note(copies)):
        assert [read(note) for read in READERS] == [None, None, None, None, copies]
        assert owner("runs", note) == Owner(OwnerKind.EXPORT, copies)
        assert owner("runs", f"{note}/more") is owner("silver", note) is None


@pytest.mark.parametrize("name", ["a0/x", "a1", "a1/", "b1/x", "a1234567890/x", "m0/x", "m/x", "1/x", ""])
def test_foreign_name_belongs_to_no_attempt_and_no_generation(name: str) -> None:
    assert places.attempt_in("here", f"here/{name}") is places.generation_in("here", f"here/{name}") is None
