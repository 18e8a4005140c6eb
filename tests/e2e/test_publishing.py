"""A workflow's life beside a running stack of two domains under load: new, changed, refused, and back again.

CAIRN_LIVES sets how many lives (`make lives`: 20); n is printed. The author's commands are those of
docs/how-to/write-a-workflow.md, which `test_docs_as_written` types as they stand there.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from deployments.stack.ports import any_port
from deployments.stack.state import REPOSITORY
from tests.support.clock import until
from tests.support.domain_process import serving
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack
LIVES = int(os.environ.get("CAIRN_LIVES") or 1)
LEARNT_SECONDS = 1.0  # after `cairn deploy` has answered, on any domain
LOADS = 2  # who has it run all the time, each on both domains in turn
PAUSE_SECONDS = 1.0
SAYS = {"1": "says hi", "2": "says hello"}


@pytest.fixture
def folder(stack: RunningStack) -> Path:
    return Path(stack.settings["CAIRN_WORKFLOWS_DIR"])


@pytest.fixture
def author(stack: RunningStack) -> RunningStack:
    """The same stack from another terminal, which was told no folder."""
    return replace(stack, settings={})


@pytest.fixture
def replicas(stack: RunningStack, tmp_path: Path) -> Iterator[list[str]]:
    """Where the stack's domain is, and where a second one with the same settings is."""
    port = any_port()
    pid = stack.facts()["services"]["domain"]["pid"]
    pairs = (pair.partition("=") for pair in Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in pair)
    with serving(port, {name: value for name, _, value in pairs}, tmp_path / "domain.log"):
        second = f"http://127.0.0.1:{port}"
        until(lambda: is_ready(second), 60)
        yield [stack.url("domain"), second]


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").is_success
    except httpx.HTTPError:
        return False


@dataclass
class Load:
    """Runs of one workflow, begun on both domains all the time, and what was answered."""

    token: str
    replicas: list[str]
    name: str
    statuses: Counter[int] = field(default_factory=Counter)
    runs: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def begin(self, http: httpx.Client, url: str) -> str | None:
        """The version of a run that this domain begins now."""
        body = {"workflow_id": self.name, "inputs": {"message": "load"}}
        answer = http.post(f"{url}/api/v1/runs", json=body)
        self.statuses[answer.status_code] += 1
        if not answer.is_success:
            return None
        run_id = answer.json()["run_id"]
        self.runs.append(run_id)
        found: dict[str, Any] = http.get(f"{url}/api/v1/runs/{run_id}").raise_for_status().json()
        return str(found["workflow"]["version"])

    def go_on(self) -> None:
        try:
            with self.client() as http:
                while not self.ended.is_set():
                    for url in self.replicas:
                        self.begin(http, url)
                        self.ended.wait(PAUSE_SECONDS)
        except Exception as error:  # noqa: BLE001 - told at the end, by whoever waits for it
            self.faults.append(repr(error))

    def client(self) -> httpx.Client:
        return httpx.Client(headers={"Authorization": f"Bearer {self.token}"}, timeout=30)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        threads = [threading.Thread(target=self.go_on) for _ in range(LOADS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.ended.set()
            for thread in threads:
                thread.join()

    def learnt(self, version: str) -> float:
        """How long until both domains begin runs of this version and of no other."""
        began = time.monotonic()
        with self.client() as http:
            until(lambda: {self.begin(http, url) for url in self.replicas} == {version}, 10)
        return time.monotonic() - began


def refused(author: RunningStack, name: str, *command: str) -> None:
    done = author.cairn(*command)
    assert done.returncode == 1, done.stdout + done.stderr
    said = " ".join((done.stdout + done.stderr).split())
    assert f"{name}.yaml:4:1: " in said
    assert f"Workflow {name} version 1 is published with other content" in said
    assert "count up `version`" in said


def test_lives_of_workflows_on_two_domains_under_load(
    stack: RunningStack, author: RunningStack, folder: Path, replicas: list[str]
) -> None:
    slowest, runs, statuses = 0.0, 0, Counter[int]()
    for number in range(LIVES):
        load = Load(stack.credentials()["operator"]["token"], replicas, f"life_{number}")
        slowest = max(slowest, live(author, folder / f"{load.name}.yaml", load))
        until(lambda load=load: outcomes(stack, load)["open"] == 0, 300)  # type: ignore[misc]
        told = outcomes(stack, load)
        assert told.keys() == {"open", "1", "2"}, told
        runs, statuses = runs + sum(told.values()), statuses + load.statuses
    assert slowest <= LEARNT_SECONDS
    assert not [status for status in statuses if status >= 500], statuses
    print(f"\nn = {LIVES} lives, {runs} runs, none mixed; learnt after {slowest:.2f} s; answers {dict(statuses)}")  # noqa: T201


def live(author: RunningStack, file: Path, load: Load) -> float:
    """One life; returns how long the slower domain took to learn of a version."""
    assert author.cairn("workflow", "new", file.stem, "--folder", str(file.parent)).returncode == 0
    assert author.json("deploy")["published"] == [f"{file.stem} version 1"]
    took = [load.learnt("1")]
    with load.at_work():
        first = file.read_text()
        file.write_text(first.replace(SAYS["1"], SAYS["2"]))
        refused(author, file.stem, "workflow", "validate", str(file))
        refused(author, file.stem, "deploy")
        file.write_text(file.read_text().replace("version: 1", "version: 2"))
        assert author.json("deploy")["published"] == [f"{file.stem} version 2"]
        took.append(load.learnt("2"))
        file.write_text(first)
        deployed = author.json("deploy")
        assert (deployed["published"], deployed["again"]) == ([], [f"{file.stem} version 1 (was version 2)"])
        took.append(load.learnt("1"))
    assert load.faults == []
    return max(took)


def outcomes(stack: RunningStack, load: Load) -> Counter[str]:
    """How many runs ended by each version, each with what that version says and nothing of the other; or are open."""
    query = "select version, state, outputs->'echoed'->>'greeting' from app.runs where run_id = any(%s::uuid[])"
    found = Counter(open=0)
    for version, state, greeting in stack.rows(query, load.runs):
        if state in {"pending", "running"}:
            found["open"] += 1
        else:
            assert (state, SAYS[version] in greeting) == ("completed", True), (version, state, greeting)
            found[version] += 1
    return found


def test_steps_of_prefect_deploy_have_the_domain_publish_or_refuse(stack: RunningStack, folder: Path) -> None:
    """That `prefect deploy --all` takes them, `test_rollout` shows."""
    name = "by_prefect"
    assert stack.cairn("workflow", "new", name, "--folder", str(folder)).returncode == 0
    assert step(stack, "refuse_reused_versions", "publish") == ""
    with stack.operator() as domain:
        assert domain.get(f"/api/v1/workflows/{name}").raise_for_status().json()["version"] == "1"
    file = folder / f"{name}.yaml"
    file.write_text(file.read_text().replace(SAYS["1"], SAYS["2"]))
    for verb in ("refuse_reused_versions", "publish"):
        assert f"Workflow {name} version 1 is published with other content" in step(stack, verb)
    file.unlink()


def step(stack: RunningStack, *verbs: str) -> str:
    """What went wrong with these steps, in the environment of who deploys to the stack by Prefect's command."""
    code = f"from deployments import prefect_steps as steps; [getattr(steps, verb)() for verb in {verbs}]"
    environment = stack.environment | {"PREFECT_API_URL": f"{stack.url('prefect')}/api"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    return done.stderr


def test_changed_file_of_a_published_version_stops_no_service(author: RunningStack, folder: Path) -> None:
    """Not even at the next start of the domain, which finds the file so. Pools keep what a deploy is not told of."""
    name, services = "count_letters", author.facts()["services"]
    assert author.cairn("workflow", "new", name, "--folder", str(folder)).returncode == 0
    assert author.cairn("workflow", "validate", str(folder)).returncode == 0
    deployed = author.json("deploy", "--limit", "gdal=7")
    assert {change["name"] for change in deployed["changes"] if change["verdict"] != "unchanged"} == {
        f"{name}/{name}", "gdal"
    }  # fmt: skip
    with author.prefect() as prefect:
        pool = prefect.get("/work_pools/gdal").json()
    assert pool["concurrency_limit"] == 7
    assert str(REPOSITORY) not in str(pool["base_job_template"])  # workers of other machines read it too
    file = folder / f"{name}.yaml"
    file.write_text(file.read_text().replace(SAYS["1"], SAYS["2"]))
    refused(author, name, "deploy")
    domain = services["domain"]["pid"]
    os.kill(domain, signal.SIGKILL)
    until(lambda: author.facts()["services"]["domain"]["pid"] not in {None, domain}, 60)
    until(lambda: author.cairn("status").returncode == 0, 120)
    assert author.json("workflow", "run", name)["workflow"]["version"] == "1"
    others = {name: service["pid"] for name, service in author.facts()["services"].items() if name != "domain"}
    assert others == {name: service["pid"] for name, service in services.items() if name != "domain"}
    file.unlink()
