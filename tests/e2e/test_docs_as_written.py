"""What the first pages tell people to type works as it stands there: copied out, and run on the whole stack."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from deployments.stack.state import REPOSITORY
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack
Typed = Mapping[str, "Future[subprocess.CompletedProcess[str]]"]
PREFERRED, PLACEHOLDER = "http://127.0.0.1:8000", r"\bREQUEST(_ID)?\b"
PARTNER, OGC = "docs/how-to/submit-as-a-partner.md", "docs/how-to/use-ogc-processes.md"
AUTHOR = "docs/how-to/write-a-workflow.md"
# The sections that are tried. Their `cairn up --detach` is what the fixture has done already.
SECTIONS = {
    "README.md": "## Working with it",
    "docs/how-to/run-the-stack.md": "## Who you are",
    "docs/how-to/submit-vectors.md": "# Submit vectors",
    PARTNER: "# Submit as a partner, from a program",
    OGC: "# Use OGC API – Processes",
    AUTHOR: "# Write a workflow",
}
# What one person types in one folder: sections one after the other, and of what kind each one's blocks are.
STORIES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "operator": {"README.md": ("sh",), "docs/how-to/run-the-stack.md": ("sh",)},
    "vectors": {"docs/how-to/submit-vectors.md": ("sh",)},
    "partner": {PARTNER: ("sh", "python")},
    "ogc": {PARTNER: ("sh",), OGC: ("python",)},
}
RUN_SECONDS = 240
# What a page shows of a command that is to refuse: it then ends with 1, any other with 0.
REFUSALS = ("failed: ", "published-version: ", "nothing was deployed")


def section(page: str) -> str:
    """From the section's heading to the next of its level."""
    text, heading = (REPOSITORY / page).read_text(), SECTIONS[page]
    start = text.index(f"{heading}\n")
    level = len(heading) - len(heading.lstrip("#"))
    end = re.compile(rf"^#{{1,{level}}} [A-Z]", re.MULTILINE).search(re.sub(r"(?m)^# (?=[a-z])", "##", text), start + 1)
    return text[start : end.start() if end else None]


def blocks(page: str, kinds: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    found = re.findall(r"```(\w+)\n(.*?)```", section(page), re.DOTALL)
    assert {kind for kind, _ in found} >= set(kinds), page
    yield from ((kind, text) for kind, text in found if kind in kinds)


def script(story: str, folder: Path, gateway: str) -> str:
    """The story as one script. What a person fills in is filled in: the address, and the id that was printed last."""
    commands = ["set -euo pipefail", 'cairn() { command cairn "$@" | tee -a printed; }']
    program = ""  # a page's programs are one: later ones use what earlier ones made
    for page, kinds in STORIES[story].items():
        for kind, text in blocks(page, kinds):
            if kind == "python":
                program += f"{text}\n"
            else:
                commands.append(text)
    if program:
        (folder / "program.py").write_text(program)
        commands.append(f"{sys.executable} program.py")
    whole = re.sub(r"^cairn up .*$", "", "\n".join(commands), flags=re.MULTILINE).replace(PREFERRED, gateway)
    return re.sub(PLACEHOLDER, r"$(sed -n 's/^request  *//p' printed | tail -1)", whole)


@pytest.fixture(scope="module")
def typed(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typed]:
    """Every story typed in a folder of its own, all at once."""
    bin_folder = tmp_path_factory.mktemp("bin")
    command = bin_folder / "cairn"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m deployments.cli "$@"\n')
    command.chmod(0o755)
    environment = stack.environment | {"PYTHONPATH": str(REPOSITORY)}
    environment["PATH"] = f"{bin_folder}:{environment['PATH']}"

    def type_out(story: str) -> "subprocess.CompletedProcess[str]":
        folder = tmp_path_factory.mktemp(story)
        (folder / ".cairn").symlink_to(stack.folder)
        (folder / "workflows").symlink_to(REPOSITORY / "workflows")
        command = ["bash", "-c", script(story, folder, stack.url("gateway"))]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=RUN_SECONDS
        )

    with ThreadPoolExecutor(len(STORIES)) as at_once:
        yield {story: at_once.submit(type_out, story) for story in STORIES}


@pytest.mark.parametrize("story", STORIES)
def test_documented_commands_run_as_written(typed: Typed, story: str) -> None:
    done = typed[story].result()
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def shown_commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """What a page has typed at a prompt, each with what it prints there."""
    for _, text in blocks(page, ("console",)):
        for typed, *told in (part.splitlines() for part in re.split(r"(?m)^\$ ", text)[1:]):
            yield typed, told


def missing(told: list[str], printed: str) -> list[str]:
    """Lines that a page shows and that were not printed in this order. `…` stands for others, or for a line's begin."""
    lines, left = iter(" ".join(line.split()) for line in printed.splitlines()), []
    for wanted in (" ".join(line.split()) for line in told if line.strip() not in {"", "…"}):
        end = wanted.removeprefix("…")
        if not any(line == wanted or (end != wanted and line.endswith(end)) for line in lines):
            left.append(wanted)
    return left


def test_authors_guide_goes_from_an_empty_file_to_published_and_back_as_written(
    stack: RunningStack, typed: Typed, tmp_path: Path
) -> None:
    """Beside the other stories: their runs are at work meanwhile."""
    (tmp_path / ".cairn").symlink_to(stack.folder)
    (tmp_path / "workflows").symlink_to(stack.settings["CAIRN_WORKFLOWS_DIR"])
    (tmp_path / "cairn").write_text(f'#!/bin/sh\nexec {sys.executable} -m deployments.cli "$@"\n')
    (tmp_path / "cairn").chmod(0o755)
    environment = stack.environment | {"PYTHONPATH": str(REPOSITORY)}
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    ran = []
    for command, told in shown_commands(AUTHOR):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=RUN_SECONDS,
        )  # fmt: skip
        printed = done.stdout + done.stderr
        assert done.returncode == any(word in line for line in told for word in REFUSALS), f"{command}\n{printed}"
        assert missing(told, printed) == [], f"{command}\n{printed}"
        ran.append((command, done.stdout))
    said = [out for command, out in ran if command.startswith("cairn workflow run count_words")]
    assert ["says hello" in out for out in said] == [False, True, False]
    versions = "select version from app.runs where workflow_id = 'count_words' order by created_at"
    assert [version for (version,) in stack.rows(versions)] == ["1", "2", "1"]


def test_documented_commands_print_what_the_pages_promise(stack: RunningStack, typed: Typed) -> None:
    told = {story: one.result().stdout for story, one in typed.items()}
    assert "clearance public, latest is 0" in told["operator"]
    assert '"status":"completed"' in told["operator"].replace(" ", "")
    assert "status    completed" in told["vectors"]
    made = "select status from app.requests join app.assets using (asset_id) where refs->>'resource_id' = %s"
    assert stack.rows(made, "dem-10m") == [("completed",)]
    assert len(stack.rows(made, "dem-by-ogc")) == 1
