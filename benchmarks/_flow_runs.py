"""Runs flows on order in processes of their own, and returns their figures."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._stack import BenchStack
from deployments.stack.owner import tied
from deployments.stack.state import REPOSITORY


@dataclass(frozen=True)
class FlowRunCost:
    """One flow run: how long it took, how much its process grew, and its task runs, each with its flow run."""

    seconds: float
    grown_mb: float
    task_runs: Mapping[str, str]


@dataclass(frozen=True)
class MeasuredFlow:
    """What is measured: a flow of the catalogue or a hand-written one, and how it is asked to run."""

    flow: str
    count: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def order(self) -> str:
        parameters = {} if self.count is None else {"count": self.count}
        return json.dumps({"flow": self.flow, "parameters": parameters, "environment": dict(self.environment)})


@dataclass(frozen=True)
class FlowProcess:
    """A process as a worker would start it, which runs one flow after the other."""

    popen: "subprocess.Popen[str]"
    log: Path

    def run(self, subject: MeasuredFlow) -> FlowRunCost:
        """Have it run; returns when it has ended."""
        assert self.popen.stdin  # noqa: S101 - both are pipes
        assert self.popen.stdout  # noqa: S101
        self.popen.stdin.write(subject.order() + "\n")
        self.popen.stdin.flush()
        line = self.popen.stdout.readline()
        if not line:
            raise RuntimeError(f"{subject.flow} did not end well: {self.log.read_text()[-3000:]}")
        return FlowRunCost(**json.loads(line))

    def alternate(self, subjects: Sequence[MeasuredFlow], rounds: int, *, warm_up: int = 1) -> list[list[FlowRunCost]]:
        """Run each subject this often, in turns, after a warm-up that is not counted."""
        made: list[list[FlowRunCost]] = [[] for _ in subjects]
        for number in range(warm_up + rounds):
            for place, subject in enumerate(subjects):
                ran = self.run(subject)
                if number >= warm_up:
                    made[place].append(ran)
        return made


@contextmanager
def flow_process(stack: BenchStack) -> Iterator[FlowProcess]:
    """A fresh process with the environment of the stack's worker."""
    log = stack.state.logs / "flow-process.log"
    with log.open("a") as errors:
        popen = subprocess.Popen(
            tied(sys.executable, "-m", "benchmarks._flow_process"),
            cwd=REPOSITORY,
            env=stack.worker_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        yield FlowProcess(popen, log)
    finally:
        popen.kill()
        popen.communicate()


def seconds(runs: Sequence[FlowRunCost]) -> float:
    """Return the median."""
    return median(ran.seconds for ran in runs)


def figure(
    name: str, value: float, unit: str, *, baseline: float | None, ratio: float | None, n: int, note: str, **goal: float
) -> dict[str, Any]:
    """Return one line of a report. The goal is `at_least` or `at_most`, of the ratio if there is one."""
    judged = value if ratio is None else ratio
    target = next(iter(goal.values()), None)
    holds = None if target is None else judged >= target if "at_least" in goal else judged <= target
    facts = {"name": name, "value": round(value, 4), "unit": unit, "target": target, "holds": holds, "n": n}
    rounded = {"baseline": baseline, "ratio": ratio}
    return facts | {key: None if one is None else round(one, 4) for key, one in rounded.items()} | {"note": note}


def told(results: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the same results, printing each for people who wait for the rest."""
    for result in results:
        judged = {True: "holds", False: "misses its target", None: "has no target"}[result["holds"]]
        ratio = "" if result["ratio"] is None else f", ratio {result['ratio']:.3g}"
        sys.stderr.write(f"{result['name']}: {result['value']:.4g} {result['unit']}{ratio}; {judged}\n")
        sys.stderr.flush()
        yield result
