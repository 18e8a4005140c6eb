"""What tests make once is made once, whole, and copied; and the account of the processor's time adds up."""

from pathlib import Path

import pytest

from tests.support import made_once
from tests.support.processor_time import SHORT, Watch, kind_of, table


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(made_once.FOLDER, str(tmp_path))
    return tmp_path


def test_second_who_asks_gets_what_the_first_made(folder: Path) -> None:
    made: list[Path] = []

    def make(place: Path) -> None:
        made.append(place)
        (place / "content").write_text("whole")

    first, second = (made_once.made_once("thing", make) for _ in range(2))
    assert (first, len(made)) == (second, 1)
    assert (second / "content").read_text() == "whole"


def test_what_failed_half_way_is_made_anew(folder: Path) -> None:
    def fail(place: Path) -> None:
        (place / "half").touch()
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        made_once.made_once("thing", fail)
    whole = made_once.made_once("thing", lambda place: (place / "whole").touch())
    assert [path.name for path in whole.iterdir()] == ["whole"]


def test_folder_of_a_run_of_tests_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(made_once.FOLDER, "another run's")
    remove = made_once.begin()
    place = made_once.made_once("thing", lambda place: (place / "x").touch())
    assert place.is_dir()
    remove()
    assert not place.parent.exists()


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("/usr/bin/python -m pytest -q", "pytest"),
        ("python -m prefect server start --port 1", "Prefect's server"),
        ("postgres: cairn_app cairn 127.0.0.1(1) idle", "PostgreSQL"),
        ("/opt/venv/bin/strange --now", "strange"),
    ],
)
def test_process_is_known_by_its_command_line(command: str, kind: str) -> None:
    assert kind_of(command.replace(" ", "\0")) == kind


def test_account_names_the_dearest_first_and_what_was_not_seen(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    watch.seconds["pytest"], watch.starts["pytest"] = 3.0, 1
    tests = {"tests/a.py::one": {"setup": 1.0, "call": 2.0}, "tests/b.py::two": {"call": 4.0}}
    told = [" ".join(line.split()) for line in table(10.0, watch, tests)]
    assert told == [
        "10.0 s in all",
        f"7.0 s {SHORT} (0)",
        "3.0 s pytest (1)",
        "4.0 s tests/b.py",
        "3.0 s tests/a.py",
        "4.0 s tests/b.py::two (call 4.0)",
        "3.0 s tests/a.py::one (setup 1.0, call 2.0)",
    ]
