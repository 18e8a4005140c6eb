"""How long compiling takes, how it grows with the file, and how long a large fan-out takes to simulate.

Every measurement is cold: what the compiler remembers between files is forgotten before each. The baseline is what
libyaml alone needs to load the same text, measured in the same run.
"""

import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import yaml

from flows.compiler import Plan, compile_text
from flows.compiler.expressions import parse_condition, parse_template
from flows.compiler.simulate import World, simulate
from flows.handlers.registry import registry

SIZES = (200, 500, 1000, 2000)
TARGETS = {200: 0.050, 2000: 0.5}
ITEMS = 1000
ITEMS_TARGET = 2.0
EXPONENT_TARGET = 1.2

# Ten nodes of every kind. Each template is another one, so that nothing is remembered from block to block.
_BLOCK = """\
  a{n}: {{handler: echo, params: {{x: "{{{{ inputs.m }}}}/{n}"}}, next: b{n}}}
  b{n}: {{handler: size_check, params: {{size_mb: {n}}}, next: c{n}}}
  c{n}: {{type: conditional, condition: "nodes.b{n}.output.size_mb > {n}", on_true: d{n}, on_false: e{n}}}
  d{n}: {{handler: echo, params: {{x: "{{{{ nodes.a{n}.output }}}}"}}, next: f{n}}}
  e{n}: {{handler: echo, params: {{x: "{{{{ nodes.a{n}.status }}}}"}}, next: f{n}}}
  f{n}: {{handler: hello_plan, depends_on: {{any_of: [d{n}, e{n}]}}, params: {{n: {n}}}, next: g{n}}}
  g{n}: {{type: fan_out, source: "{{{{ nodes.f{n}.output.tasks }}}}", task: {{handler: echo, params: {{x: "{{{{ item }}}}"}}}}, next: h{n}}}
  h{n}: {{type: fan_in, next: i{n}}}
  i{n}: {{handler: echo, params: {{x: "{{{{ nodes.h{n}.output.results }}}}"}}, when: "{n} > 0", next: j{n}}}
  j{n}: {{handler: echo, depends_on: f{n}, params: {{x: "{{{{ nodes.f{n}.output.tasks }}}}"}}, next: {after}}}
"""  # noqa: E501 - one node a line
_FAN_OUT = """\
workflow_id: fan
version: 1
inputs: {items: {type: array, required: true}}
nodes:
  start: {type: start, next: each}
  each:
    type: fan_out
    source: "{{ inputs['items'] }}"
    item_key: "item-{{ item }}"
    max_concurrency: 50
    task: {handler: echo, params: {value: "{{ item }}", text: "{{ index }} of many"}, retry: {max_attempts: 2}}
    next: all
  all: {type: fan_in, next: end}
  end: {type: end}
outputs: {count: "{{ nodes.all.output.count }}"}
"""


def workflow_of(nodes: int) -> str:
    """A workflow of this many nodes, a multiple of ten, beside its start and end."""
    blocks = nodes // 10
    body = "".join(
        _BLOCK.format(n=number, after=f"a{number + 1}" if number < blocks else "end") for number in range(1, blocks + 1)
    )
    head = "workflow_id: bench\nversion: 1\ninputs: {m: {type: string, default: x}}\nnodes:\n"
    return f"{head}  start: {{type: start, next: a1}}\n{body}  end: {{type: end}}\n"


def run(repeats: int = 7) -> dict[str, Any]:
    """Measure, and report in the shape of all benchmarks."""
    registry()
    times = {size: _compile_times(size, repeats) for size in SIZES}
    results = [_compile_result(size, *times[size], repeats) for size in SIZES]
    results.append(_growth({size: own for size, (own, _) in times.items()}, repeats))
    results.append(_simulation(repeats))
    return {"bench": "compile", "machine": _machine(), "versions": _versions(), "results": results}


def _compile_times(size: int, repeats: int) -> tuple[float, float]:
    """Seconds to compile a workflow of this size, and to load its YAML only."""
    text = workflow_of(size)

    def compile_cold() -> None:
        parse_template.cache_clear()
        parse_condition.cache_clear()
        compilation = compile_text(text, "bench", registry())
        if compilation.faults:
            raise RuntimeError(f"the benchmark's own workflow is wrong: {compilation.faults[0]}")

    own = _best_seconds(compile_cold, repeats)
    return own, _best_seconds(lambda: yaml.load(text, yaml.CSafeLoader), repeats)


def _best_seconds(work: Callable[[], object], repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return min(taken)  # of a pure function: whatever is slower is the machine's other work


def _compile_result(size: int, own: float, baseline: float, repeats: int) -> dict[str, Any]:
    note = "best of n, cold; baseline: libyaml loads the same text"
    return _result(f"compile_{size}_nodes", own, "s", TARGETS.get(size), repeats, note=note, baseline=baseline)


def _growth(times: dict[int, float], repeats: int) -> dict[str, Any]:
    """The exponent of the growth: the slope of a line through the logarithms."""
    points = [(math.log(size), math.log(seconds)) for size, seconds in times.items()]
    slope = statistics.linear_regression(*zip(*points, strict=True)).slope
    note = f"1 is linear; {min(times)} to {max(times)} nodes"
    return _result("growth_exponent", slope, "1", EXPONENT_TARGET, repeats, note=note)


def _simulation(repeats: int) -> dict[str, Any]:
    plan = compile_text(_FAN_OUT, "fan", registry()).plan
    if plan is None:
        raise RuntimeError("the benchmark's own fan-out is wrong")
    seconds = _best_seconds(lambda: _simulate(plan), repeats)
    return _result(
        f"simulate_{ITEMS}_items",
        seconds,
        "s",
        ITEMS_TARGET,
        repeats,
        note="best of n; 50 at once, every item rendered",
    )


def _simulate(plan: Plan) -> None:
    result = simulate(plan, {"items": list(range(ITEMS))}, World(registry()))
    if result.outputs != {"count": ITEMS}:
        raise RuntimeError(f"the simulation went wrong: {result.error}")


def _result(
    name: str, value: float, unit: str, target: float | None, n: int, *, note: str, baseline: float | None = None
) -> dict[str, Any]:
    return {
        "name": name,
        "value": round(value, 5),
        "unit": unit,
        "baseline": round(baseline, 5) if baseline else None,
        "ratio": round(value / baseline, 2) if baseline else None,
        "target": target,
        "holds": None if target is None else value <= target,
        "n": n,
        "note": note,
    }


def _machine() -> dict[str, Any]:
    return {"system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()}


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in ("jinja2", "pyyaml", "pydantic")}}


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    sys.stdout.write("\n")
