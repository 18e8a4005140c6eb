"""Rules that several statements join are spelled in one place: a second spelling is found, wherever it appears."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
ROOMS = ("domain", "gateway", "deployments", "flows")
FROZEN = "domain/migrations/versions/"  # history, and the views that tests hold against the rules
# Each rule: what nobody can spell it without, and where that may stand.
SPELLINGS = {
    "what a pause holds": (
        r"\bapp\.settings\b|\bimport\b[^\n]*\bSetting\b",
        {"domain/models/__init__.py", "domain/repositories/controls.py"},
    ),
    "what is public": (r"(==|!=|=|<>|\bcase|\bin) *[\[({]*['\"]public['\"]", {"domain/rules/clearance.py"}),
    "what is served": (
        r"\bserved_revision(\.is_not\(None\)| is not null)",
        {"domain/repositories/assets.py", "domain/repositories/precedents.py"},  # there, row by row, as it is
    ),
    "where files lie": (
        r"""f"(assets|runs|withdrawn|pipeline-runs)/[{(]|/[am]\{(?!\{)|"quarantine/""",
        {"domain/rules/places.py"},
    ),
    "what is half-written": (r"\"\.partial-", {"flows/storage/protocol.py"}),
    "what a relay left lying": (r"\blease_until\s*<\s*clock_timestamp\(\)", {"domain/repositories/backlog.py"}),
}


def spellers(pattern: str) -> set[str]:
    files = [file for room in ROOMS for file in (REPOSITORY / room).rglob("*.py")]
    assert len(files) > 300
    names = {file.relative_to(REPOSITORY).as_posix(): file for file in files}
    spelled = re.compile(pattern, re.MULTILINE)
    return {name for name, file in names.items() if not name.startswith(FROZEN) and spelled.search(file.read_text())}


@pytest.mark.parametrize("rule", SPELLINGS)
def test_each_rule_is_spelled_in_its_own_place_only(rule: str) -> None:
    pattern, places = SPELLINGS[rule]
    assert spellers(pattern) == places
