"""The embedded stack as a user starts it: by the command line, in a state folder of its own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from deployments.stack.owner import owned, tied
from deployments.stack.state import REPOSITORY
from deployments.stack.supervisor import processes_marked
from tests.support.asking import ask, forget
from tests.support.ready_databases import give_databases


@dataclass(frozen=True)
class RunningStack:
    """A stack and the ways to talk to it."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """A user's environment: nothing of ours but the state folder, and that the stack is to end with the tests."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CAIRN_", "PREFECT_"))}
        return kept | {"CAIRN_STATE": str(self.folder), **owned(), **self.settings}

    def cairn(self, *arguments: str, timeout: float = 240) -> "subprocess.CompletedProcess[str]":
        """Run the command as a user would, outside a terminal."""
        command = [sys.executable, "-m", "deployments.cli", *arguments]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=timeout, check=False
        )

    @contextmanager
    def up(self) -> Iterator["RunningStack"]:
        """Have it run while the block does. Its first start finds databases that are ready."""
        if not (self.folder / "secrets.json").exists():
            give_databases(self.folder)
        started = self.cairn("up", "--detach", "--json")
        assert started.returncode == 0, started.stderr
        try:
            yield self
        finally:
            forget(self.url("postgres"))
            self.cairn("down")

    def spawn(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start the command and go on."""
        # A shell that runs the tests in its background has SIGINT ignored, which all that they start would inherit.
        command = tied("env", "--default-signal=INT", sys.executable, "-m", "deployments.cli", *arguments)
        return subprocess.Popen(
            command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def json(self, *arguments: str) -> Any:
        done = self.cairn(*arguments, "--json")
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(done.stdout)

    def facts(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / "stack.json").read_text())
        return content

    def credentials(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / "credentials.json").read_text())
        return content

    def url(self, service: str) -> str:
        return str(self.facts()["services"][service]["url"])

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return ask(self.url("postgres"), query, values)

    def prefect(self) -> httpx.Client:
        user, _, password = self.credentials()["prefect"]["auth_string"].partition(":")
        return httpx.Client(base_url=f"{self.url('prefect')}/api", auth=(user, password), timeout=30)

    def partner(self) -> httpx.Client:
        """The gateway, as ddh's development client."""
        key = self.credentials()["clients"]["ddh"]["api_key"]
        return httpx.Client(base_url=self.url("gateway"), headers={"X-API-Key": key}, timeout=30)

    def operator(self) -> httpx.Client:
        token = self.credentials()["operator"]["token"]
        return httpx.Client(base_url=self.url("domain"), headers={"Authorization": f"Bearer {token}"}, timeout=30)

    def processes(self) -> Sequence[int]:
        """Every process of this stack, whoever its parent is now."""
        return processes_marked(str(self.folder))


def with_workflows(folder: Path, workflows: Mapping[str, str], **settings: str) -> RunningStack:
    """A stack below this folder that has these workflows, by id, beside the platform's own."""
    definitions = folder / "workflows"
    shutil.copytree(REPOSITORY / "workflows", definitions)
    for name, text in workflows.items():
        (definitions / f"{name}.yaml").write_text(text)
    return RunningStack(folder / "state", {"CAIRN_WORKFLOWS_DIR": str(definitions), **settings})
