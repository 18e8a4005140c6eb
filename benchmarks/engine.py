"""How fast compiled flows are, beside the best that we can write by hand for the same Prefect server.

A whole embedded stack: Prefect on PostgreSQL with Redis, the domain, storage, workers. Both sides have on what a user
has on (retries, timeouts, kept results), run in the same process in turns, and are timed from their call to their end:
ours includes registering with the domain and handing in the outcome. CAIRN_BENCH_SHORT=1 takes fewer and smaller runs.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from itertools import accumulate
from platform import python_version
from statistics import median
from typing import Any

from benchmarks._flow_runs import FlowProcess, FlowRunCost, MeasuredFlow, figure, flow_process, seconds, told
from benchmarks._load import this_machine
from benchmarks._stack import BenchStack, running_stack

UNGROUPED = {"CAIRN_FAN_OUT_TASK_RUNS": "1000000"}
GROUPED = {"CAIRN_FAN_OUT_TASK_RUNS": "200"}
GROUPED_RECORDS_SECONDS, RECORDS_SECONDS = 90.0, 180.0
LOOK_SECONDS = 2.0
IDLE_LOOK_SECONDS, IDLE_SECONDS = 0.4, 300.0

FAN_OUT = """
workflow_id: bench_fan_out
version: 1
inputs: {count: {type: integer, default: 100}}
nodes:
  start: {type: start, next: each}
  each:
    type: fan_out
    source: "{{ [0] * inputs.count }}"
    task: {handler: echo, params: {x: "{{ index }}"}, retry: {max_attempts: 3}, timeout_seconds: 60}
    next: all
  all: {type: fan_in, next: end}
  end: {type: end}
outputs: {succeeded: "{{ nodes.all.output.succeeded }}"}
"""
MAX_CONCURRENCY, SHARDS = 6, 3
SHARDED = f"""
workflow_id: bench_sharded
version: 1
nodes:
  start: {{type: start, next: each}}
  each:
    type: fan_out
    source: "{{{{ [0] * 36 }}}}"
    max_concurrency: {MAX_CONCURRENCY}
    shards: {SHARDS}
    task: {{handler: scripted, queue: gdal, params: {{seconds: 0.5}}}}
    next: all
  all: {{type: fan_in, next: end}}
  end: {{type: end}}
"""
TWO_POOLS = """
workflow_id: bench_two_pools
version: 1
nodes:
  start: {type: start, next: here}
  here: {handler: echo, next: there}
  there: {handler: echo, queue: gdal, next: end}
  end: {type: end}
"""


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    rounds: int
    rounds_documented: int
    items: int
    many_items: int
    chain: int
    sharded: int


FULL = Amount(rounds=5, rounds_documented=5, items=1000, many_items=5000, chain=200, sharded=20)
SHORT = Amount(rounds=3, rounds_documented=1, items=300, many_items=1000, chain=50, sharded=3)


def run(size: Amount | None = None, only: Collection[str] = ()) -> dict[str, Any]:
    """Measure, all or only what is named, and report in the shape of all benchmarks."""
    size = size or (SHORT if os.environ.get("CAIRN_BENCH_SHORT") else FULL)
    with running_stack(workflows(size.chain)) as stack:
        results = list(told(_measured(stack, size, only)))
    return {"bench": "engine", "machine": this_machine(), "versions": _versions(), "results": results}


def workflows(chain_length: int) -> dict[str, str]:
    """What the stack must have beside the platform's own, by id."""
    fixed = {"bench_fan_out": FAN_OUT, "bench_sharded": SHARDED, "bench_two_pools": TWO_POOLS}
    return fixed | {"bench_chain": chain(chain_length)}


def _measured(stack: BenchStack, size: Amount, only: Collection[str]) -> Iterator[dict[str, Any]]:
    with flow_process(stack) as process:
        for measure in (_throughput, _chain, _small_fan_out, _documented, _growth, _rows, _records):
            if _is_wanted(measure, only):
                _until_idle(stack)
                yield from measure(stack, process, size)
    for measure_workers in (_memory, _two_pools, _concurrency):
        if _is_wanted(measure_workers, only):
            _until_idle(stack)
            yield from measure_workers(stack, size)
    dropped = stack.dropped_messages()
    note = "lines of the Prefect server's log that tell of one, after all of the above"
    yield figure("dropped_messages", dropped, "1", baseline=None, ratio=None, n=1, note=note, at_most=0)


def _is_wanted(measure: Callable[..., object], only: Collection[str]) -> bool:
    return not only or measure.__name__.removeprefix("_") in only


def _throughput(stack: BenchStack, process: FlowProcess, size: Amount) -> Iterator[dict[str, Any]]:
    """No-op items: grouped, not grouped, by hand."""
    count = size.items
    subjects = [
        ours(count),
        ours(count, UNGROUPED),
        MeasuredFlow("gather", count),
        MeasuredFlow("gather_forgetting", count),
    ]
    grouped, ungrouped, bare, forgetting = _in_quiet_turns(stack, process, subjects, size.rounds)
    for name, runs, target in (("items", grouped, 2.0), ("items_ungrouped", ungrouped, 0.95)):
        note = f"{count} no-op items; baseline: gather by hand, {seconds(bare):.2f} s; the target is of the ratio"
        yield _faster(f"{name}_per_second", count, runs, bare, note, target)
    note = "gather by hand, keeping no result, which is what was recorded as 2.4 s for 1,000; baseline: keeping them"
    yield _slower("by_hand_keeping_nothing", forgetting, bare, note)


def _chain(stack: BenchStack, process: FlowProcess, size: Amount) -> Iterator[dict[str, Any]]:
    """Tasks one after the other."""
    own, bare = process.alternate([MeasuredFlow("bench_chain"), MeasuredFlow("chain", size.chain)], size.rounds)
    note = f"a chain of {size.chain} tasks; baseline: the same by hand; the target is of the ratio"
    yield _faster("chain_tasks_per_second", size.chain, own, bare, note, 0.95)


def _small_fan_out(stack: BenchStack, process: FlowProcess, size: Amount) -> Iterator[dict[str, Any]]:
    """A fan-out of a usual size, start to end."""
    own, bare = process.alternate([ours(100), MeasuredFlow("gather", 100)], 2 * size.rounds)
    note = "the whole run, registered and committed; baseline: the whole hand-written run; the target is of the ratio"
    yield _slower("fan_out_of_100", own, bare, note, at_most=1.3)


def _documented(stack: BenchStack, process: FlowProcess, size: Amount) -> Iterator[dict[str, Any]]:
    """Measure the documented way, which takes so long that it needs no warm-up."""
    subjects = [ours(size.items), MeasuredFlow("documented_map", size.items)]
    process.run(ours(size.items))
    own, bare = _in_quiet_turns(stack, process, subjects, size.rounds_documented, warm_up=0)
    note = f"{size.items} items; baseline: async flow and .map, {seconds(bare):.1f} s; the target is of the ratio"
    yield _faster("items_per_second_vs_documented", size.items, own, bare, note, 30)


def _growth(stack: BenchStack, process: FlowProcess, size: Amount) -> Iterator[dict[str, Any]]:
    """Time over items."""
    few, many = 100, size.many_items
    small, large = _in_quiet_turns(stack, process, [ours(few), ours(many)], size.rounds)
    linear = seconds(small) * many / few
    note = f"{many} items; baseline: {many // few} times what {few} take, {seconds(small):.2f} s; target of the ratio"
    yield figure(
        "growth",
        seconds(large),
        "s",
        baseline=linear,
        ratio=seconds(large) / linear,
        n=len(large),
        note=note,
        at_most=1.0,
    )


def _rows(stack: BenchStack, process: FlowProcess, size: Amount) -> Iterator[dict[str, Any]]:
    """What a large fan-out leaves in the domain for ever."""
    rows: dict[int, list[int]] = {100: [], size.many_items: []}
    for _ in range(size.rounds):
        for count, added in rows.items():
            before = stack.domain_rows()
            process.run(ours(count))
            added.append(stack.domain_rows() - before)
    few, many = (median(added) for added in rows.values())
    note = f"rows a run of {size.many_items} items adds to the domain; baseline: of 100; the target is of the ratio"
    yield figure("domain_rows", many, "1", baseline=few, ratio=many / few, n=size.rounds, note=note, at_most=1.1)


def _memory(stack: BenchStack, size: Amount) -> Iterator[dict[str, Any]]:
    """What a large fan-out takes at its height, in a process that has run a small one."""
    own = [_grown(stack, "bench_fan_out", size) for _ in range(size.rounds)]
    bare = _grown(stack, "gather", size)
    note = f"peak over what it held before, {size.many_items} items after 100; baseline: gather by hand, once"
    yield figure("memory_growth", median(own), "MB", baseline=bare, ratio=None, n=size.rounds, note=note, at_most=50)


def _grown(stack: BenchStack, flow: str, size: Amount) -> float:
    _until_idle(stack)
    with flow_process(stack) as process:
        process.run(MeasuredFlow(flow, 100, GROUPED))
        return process.run(MeasuredFlow(flow, size.many_items, GROUPED)).grown_mb


def _two_pools(stack: BenchStack, size: Amount) -> Iterator[dict[str, Any]]:
    """A run and its child on the other pool, by the stack's own workers."""
    stack.completed_in(stack.start("bench_two_pools"))
    took = [stack.completed_in(stack.start("bench_two_pools")) for _ in range(2 * size.rounds)]
    note = "parent on light and child on gdal, accepted to committed; no baseline: the target is of the value"
    yield figure("two_pools", median(took), "s", baseline=None, ratio=None, n=len(took), note=note, at_most=2.5)


def _concurrency(stack: BenchStack, size: Amount) -> Iterator[dict[str, Any]]:
    """How near a divided fan-out comes to its `max_concurrency`, and whether it ever passes it."""
    peaks, processes = [], []
    for _ in range(size.sharded):
        run_id = stack.start("bench_sharded")
        stack.completed_in(run_id)
        marks = stack.marks(run_id)
        peaks.append(_peak(marks))
        processes.append(len({mark["pid"] for mark in marks}))
    told = f"items at once in {min(processes)} processes or more; baseline: max_concurrency; the target is of the ratio"
    for name, value, goal in (("least", min(peaks), {"at_least": 0.9}), ("most", max(peaks), {"at_most": 1.0})):
        ratio, note = value / MAX_CONCURRENCY, f"the {name} {told}"
        yield figure(f"peak_{name}", value, "1", baseline=MAX_CONCURRENCY, ratio=ratio, n=len(peaks), note=note, **goal)


def _peak(marks: list[dict[str, Any]]) -> int:
    """Return the most tries at once; an end comes before a beginning of the same moment."""
    moves = sorted([(mark["began"], 1) for mark in marks] + [(mark["ended"], -1) for mark in marks])
    return max(accumulate(move for _, move in moves))


def _records(stack: BenchStack, process: FlowProcess, size: Amount) -> Iterator[dict[str, Any]]:
    """Whether Prefect's records are complete soon after a large fan-out."""
    count = size.many_items
    for name, subject, patience in (
        ("missing_records", ours(count), GROUPED_RECORDS_SECONDS),
        ("missing_records_ungrouped", ours(count, UNGROUPED), RECORDS_SECONDS),
    ):
        missing, waited, told = _missing(stack, process, subject, patience)
        bare, _, _ = _missing(stack, process, MeasuredFlow("gather", count), patience)
        note = f"of {told} task runs, {waited:.0f} s after a run of {count} items; baseline: gather by hand"
        yield figure(name, missing, "1", baseline=bare, ratio=None, n=1, note=note, at_most=0)


def _missing(stack: BenchStack, process: FlowProcess, subject: MeasuredFlow, patience: float) -> tuple[int, float, int]:
    """How many task runs Prefect does not know to be completed once all are there or patience ends."""
    _until_idle(stack)
    ran = process.run(subject)
    [flow_run_id] = set(ran.task_runs.values())
    began = time.monotonic()
    while True:
        missing = ran.task_runs.keys() - stack.completed_task_runs(flow_run_id)
        waited = time.monotonic() - began
        if not missing or waited > patience:
            return len(missing), waited, len(ran.task_runs)
        time.sleep(LOOK_SECONDS)


def _in_quiet_turns(
    stack: BenchStack, process: FlowProcess, subjects: list[MeasuredFlow], rounds: int, *, warm_up: int = 1
) -> list[list[FlowRunCost]]:
    """Run subjects in turns, each once the server has recorded what the last one reported."""
    made: list[list[FlowRunCost]] = [[] for _ in subjects]
    for number in range(warm_up + rounds):
        for place, subject in enumerate(subjects):
            _until_idle(stack)
            ran = process.run(subject)
            if number >= warm_up:
                made[place].append(ran)
    return made


def _until_idle(stack: BenchStack) -> None:
    """Wait until Prefect's server records nothing new: what one run leaves to do must not burden the next."""
    deadline, before, quiet = time.monotonic() + IDLE_SECONDS, -1, 0
    while quiet < 2 and time.monotonic() < deadline:
        now = stack.written_by_prefect()
        quiet = quiet + 1 if now == before else 0
        before = now
        time.sleep(IDLE_LOOK_SECONDS)


def ours(count: int, environment: dict[str, str] | None = None) -> MeasuredFlow:
    """The compiled fan-out."""
    return MeasuredFlow("bench_fan_out", count, environment or GROUPED)


def chain(length: int) -> str:
    """A workflow of so many tasks, each given what the one before returned."""
    task = "handler: echo, retry: {max_attempts: 3}, timeout_seconds: 60"
    lines = ["workflow_id: bench_chain", "version: 1", "nodes:", "  start: {type: start, next: n0}"]
    for number in range(length):
        before = f"nodes.n{number - 1}.output.echoed_params.x + 1" if number else "0"
        after = f"n{number + 1}" if number + 1 < length else "end"
        lines.append(f'  n{number}: {{{task}, params: {{x: "{{{{ {before} }}}}"}}, next: {after}}}')
    return "\n".join([*lines, "  end: {type: end}", ""])


def _faster(
    name: str, count: int, own: list[FlowRunCost], bare: list[FlowRunCost], note: str, target: float
) -> dict[str, Any]:
    ratio = seconds(bare) / seconds(own)
    per_second, by_hand = count / seconds(own), count / seconds(bare)
    return figure(name, per_second, "1/s", baseline=by_hand, ratio=ratio, n=len(own), note=note, at_least=target)


def _slower(name: str, own: list[FlowRunCost], bare: list[FlowRunCost], note: str, **goal: float) -> dict[str, Any]:
    ratio = seconds(own) / seconds(bare)
    return figure(name, seconds(own), "s", baseline=seconds(bare), ratio=ratio, n=len(own), note=note, **goal)


def _versions() -> dict[str, str]:
    names = ("prefect", "prefect-redis", "psycopg", "sqlalchemy")
    return {"python": python_version(), **{name: version(name) for name in names}}


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    sys.stdout.write("\n")
