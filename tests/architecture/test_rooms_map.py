"""The map of the rooms in the README is what the tree says."""

from pathlib import Path

import pytest

from tests.support import rooms_map
from tests.support.rooms_map import PICTURE, ROOMS, drawn, first_sentence, known, parts


def test_map_equals_the_one_drawn_from_the_tree() -> None:
    assert PICTURE.read_text() == drawn(), "draw it anew: python -m tests.support.rooms_map"


def test_every_part_of_a_room_has_a_description() -> None:
    silent = [f"{room}/{part.name}" for room in ROOMS for part in parts(room) if not part.says]
    assert silent == []


def test_new_import_between_rooms_changes_the_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for room in ROOMS:
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text(f'"""{room}. And more."""\n')
    monkeypatch.setattr(rooms_map, "REPOSITORY", tmp_path)
    assert known() == {}
    before = drawn()
    (tmp_path / "domain" / "odd.py").write_text('"""Odd."""\nfrom gateway.edge import rates\n')
    assert known() == {("domain", "gateway"): ["edge"]}
    assert drawn() != before
    assert first_sentence(tmp_path / "domain" / "__init__.py") == "domain"
