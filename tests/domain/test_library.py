"""Workflows that come to a running domain: published at once, pinned by what runs, refused alone where wrong."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from domain.settings import REPOSITORY
from tests.support.acts import dispatched
from tests.support.cluster import TestDatabase
from tests.support.platform import Domain, another_domain, running_domain

TEXT = """
workflow_id: {name}
name: {says}
version: {version}
nodes:
  start: {{type: start, next: say}}
  say: {{handler: echo, params: {{message: "{says}"}}, next: end}}
  end: {{type: end}}
"""


CALLER = """
workflow_id: {name}
version: 1
nodes:
  start: {{type: start, next: sub}}
  sub: {{type: workflow, workflow: {calls}, next: end}}
  end: {{type: end}}
"""


class Author:
    """Who writes a workflow's file. Its name is nobody else's: what is published stays in the tests' database."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "workflows"
        shutil.copytree(REPOSITORY / "workflows", self.folder)
        self.name = f"w_{uuid4().hex}"
        self.file = self.folder / f"{self.name}.yaml"

    def writes(self, version: int, says: str) -> None:
        self.file.write_text(TEXT.format(name=self.name, version=version, says=says))


@pytest.fixture
def author(tmp_path: Path) -> Author:
    return Author(tmp_path)


@pytest.fixture
async def domain(shared_database: TestDatabase, author: Author, tmp_path: Path) -> AsyncIterator[Domain]:
    async with running_domain(shared_database, tmp_path, workflows_dir=author.folder) as running:
        yield running


async def publish(domain: Domain) -> dict[str, Any]:
    async with domain.as_("operator") as operator:
        answer = await operator.post("/api/v1/bootstrap/deploy")
    assert answer.status_code == 200, answer.text
    done: dict[str, Any] = answer.json()
    return done


async def run(domain: Domain, name: str) -> dict[str, Any]:
    async with domain.as_("operator") as operator:
        answer = await operator.post("/api/v1/runs", json={"workflow_id": name})
        if not answer.is_success:
            refusal: dict[str, Any] = answer.json()
            return refusal
        found: dict[str, Any] = (await operator.get(f"/api/v1/runs/{answer.json()['run_id']}")).json()
    return found


async def shown(domain: Domain, name: str) -> dict[str, Any]:
    async with domain.as_("operator") as operator:
        found: dict[str, Any] = (await operator.get(f"/api/v1/workflows/{name}")).json()
    return found


async def until(question: Callable[[], bool]) -> None:
    """Look again and again: nothing of a NOTIFY's arrival can be awaited from outside."""
    for _ in range(600):
        if question():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it did not happen")


async def test_published_version_is_used_by_new_runs_at_once_and_not_by_earlier_ones(
    domain: Domain, author: Author
) -> None:
    assert (await run(domain, author.name))["code"] == "no-workflow"
    author.writes(1, "first")
    done = await publish(domain)
    assert (done["changed"], done["refused"]) == (True, {})
    first = await run(domain, author.name)
    author.writes(2, "second")
    assert (await publish(domain))["changed"] is True
    [flow] = await dispatched(domain)
    order = (await flow.start()).json()
    assert [node["params"] for node in order["plan"]["nodes"] if node.get("handler")] == [{"message": "first"}]
    second = await run(domain, author.name)
    assert [one["workflow"]["version"] for one in (first, second)] == ["1", "2"]
    assert (await publish(domain))["changed"] is False


async def test_every_process_of_the_domain_learns_of_a_published_version(
    domain: Domain, author: Author, tmp_path: Path
) -> None:
    settings = {"workflows_dir": author.folder}
    async with another_domain(domain.database, tmp_path / "other", **settings) as other:
        author.writes(1, "first")
        await publish(domain)
        await until(lambda: author.name in other.service.definitions.by_id)
        assert (await run(other, author.name))["workflow"]["version"] == "1"


async def test_deploy_of_an_earlier_version_makes_every_process_run_it_again(
    domain: Domain, author: Author, tmp_path: Path
) -> None:
    """A rollback. Also where its notice is lost, and after a restart that finds the file with faults."""
    async with another_domain(domain.database, tmp_path / "other", workflows_dir=author.folder) as other:
        noticed = []
        for version, replaced in ((1, {}), (2, {author.name: "1"}), (1, {author.name: "2"})):
            author.writes(version, f"says {version}")
            done = await publish(domain)
            assert (done["changed"], done["replaced"], done["refused"]) == (True, replaced, {})
            assert (await run(domain, author.name))["workflow"]["version"] == str(version)
            await until(lambda version=version: version_of(other, author.name) == str(version))  # type: ignore[misc]
            noticed.append(domain.service.library._newest)  # by which others see what they were not told
        assert noticed == sorted(set(noticed), key=str)
    author.file.write_text("nodes: [")
    async with another_domain(domain.database, tmp_path / "later", workflows_dir=author.folder) as later:
        assert version_of(later, author.name) == "1"


def version_of(domain: Domain, name: str) -> str | None:
    known = domain.service.definitions.by_id.get(name)
    return str(known.plan.version) if known else None


async def test_other_content_under_a_published_version_is_refused_alone(domain: Domain, author: Author) -> None:
    author.writes(1, "first")
    await publish(domain)
    author.writes(1, "other")
    done = await publish(domain)
    assert list(done["refused"]) == [author.name]
    assert "version 1 is published with other content" in done["refused"][author.name]
    assert "count up `version`" in done["refused"][author.name]
    known = await shown(domain, author.name)
    assert 'message: "first"' in known["source"]
    assert known["refused"] == done["refused"][author.name]
    assert (await run(domain, author.name))["workflow"]["digest"] == known["digest"]
    assert (await shown(domain, "echo_test"))["refused"] is None


@pytest.mark.parametrize("slip", ["other content", "faults"])
async def test_domain_starts_with_broken_workflow_files(
    domain: Domain, author: Author, tmp_path: Path, slip: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on with what it has, says so, and every other workflow is as it was."""
    author.writes(1, "first")
    await publish(domain)
    author.writes(1, "other") if slip == "other content" else author.file.write_text("nodes: [")
    settings = {"workflows_dir": author.folder}
    async with another_domain(domain.database, tmp_path / "next", **settings) as following:
        assert (await run(following, author.name))["workflow"]["version"] == "1"
        assert (await run(following, "echo_test"))["workflow"]["version"] == "1"
        async with following.as_("operator") as operator:
            ready = await operator.get("/readyz")
            status = (await operator.get("/api/v1/bootstrap/status")).json()
        assert (ready.status_code, ready.json()["refused_workflows"]) == (200, [author.name])
        assert list(status["refused"]) == [author.name]
    told = [line for line in caplog.records if line.name == "cairn.workflows"]
    assert [line.__dict__["workflow"] for line in told] == [author.name]
    author.writes(2, "second")
    assert (await publish(domain))["refused"] == {}


async def test_workflow_whose_file_was_always_broken_is_refused_by_name(domain: Domain, author: Author) -> None:
    author.file.write_text("nodes: [")
    done = await publish(domain)
    assert list(done["refused"]) == [author.name]
    problem = await run(domain, author.name)
    assert problem["code"] == "no-workflow"
    assert "Its file is refused" in problem["detail"]


async def test_workflow_that_calls_a_refused_one_is_refused_too(domain: Domain, author: Author) -> None:
    author.writes(1, "first")
    author.file.write_text(author.file.read_text().replace("handler: echo", "handler: nobody.knows"))
    caller = author.file.with_name(f"{author.name}_caller.yaml")
    caller.write_text(CALLER.format(name=caller.stem, calls=author.name))
    refused = (await publish(domain))["refused"]
    assert set(refused) == {author.name, caller.stem}
    assert author.name in refused[caller.stem]
    author.writes(1, "first")
    assert (await publish(domain))["refused"] == {}


async def test_workflow_that_approvals_need_stays_when_its_file_is_removed(domain: Domain, author: Author) -> None:
    (author.folder / "withdraw_external.yaml").unlink()
    (author.folder / "echo_test.yaml").unlink()
    done = await publish(domain)
    assert list(done["refused"]) == ["withdraw_external"]
    assert "withdraw_external" in done["details"]
    assert "echo_test" not in done["details"]


async def test_published_versions_are_listed_for_staff_only(domain: Domain, author: Author) -> None:
    for version in (1, 2):
        author.writes(version, "first")
        await publish(domain)
    async with domain.as_("operator") as operator, domain.as_("worker") as worker:
        found = (await operator.get("/api/v1/bootstrap/definitions")).json()
        assert (await worker.get("/api/v1/bootstrap/definitions")).status_code == 403
    assert [row["version"] for row in found if row["workflow_id"] == author.name] == ["2", "1"]
    with psycopg.connect(domain.database.url()) as connection:
        [(count,)] = connection.execute("select count(*) from app.workflow_definitions")
    assert len(found) == count, json.dumps(found)
