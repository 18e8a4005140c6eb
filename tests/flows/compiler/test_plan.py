"""The plan: what is settled when it is made, and what may be asked of it."""

from flows.compiler import FanIn, FanOut, Input, Node, Plan, Resources, Retry
from tests.flows.compiler.support import compiled

TEXT = """workflow_id: test
name: A test
version: "2.0"
description: Promises nothing.
accepts: {data_type: [raster, vector], operation: [x, y]}
type: realtime
sla_seconds: 60
retry: {max_attempts: 1, initial_delay_seconds: 7}
inputs: {n: {type: integer, required: true}}
nodes:
  start: {type: start, next: [a, b, c]}
  a: {handler: raster.validate, params: {source: a/b}, timeout_seconds: 5, next: end}
  b:
    handler: echo
    queue: container-tasks
    retry: {max_attempts: 4}
    dispatch_timeout_seconds: 9
    resources: {memory_mb: 100}
    priority: high
    version: 3
    args: {x: 1}
    on_failure: continue
    when: true
    next: end
  c: {type: fan_out, source: [1], tolerated_failures: "2.5%", task: {handler: sleep, pool: dag-worker-tasks}, next: d}
  d: {type: fan_in, aggregation: sum, field: slept_seconds, next: end}
  end: {type: end}
"""


def plan() -> Plan:
    compilation = compiled(TEXT)
    assert compilation.faults == ()
    assert compilation.plan is not None
    return compilation.plan


def test_plan_holds_every_field_of_its_file() -> None:
    made = plan()
    assert (made.workflow_id, made.name, made.version, made.type, made.sla_seconds) == (
        "test",
        "A test",
        "2.0",
        "realtime",
        60,
    )
    assert made.description == "Promises nothing."
    assert made.inputs == {"n": Input("n", "integer", required=True)}
    assert made.accepted_pairs() == (("raster", "x"), ("raster", "y"), ("vector", "x"), ("vector", "y"))
    assert made.handlers() == {"raster.validate", "echo", "sleep"}
    assert made.sub_workflows == frozenset()
    assert made.input_schema()["required"] == ["n"]
    assert made.resolve_inputs({"n": 1}) == {"n": 1}


def test_plan_fills_in_the_defaults_of_its_nodes() -> None:
    nodes = plan().nodes
    assert list(nodes) == ["start", "a", "b", "c", "d", "end"]
    assert nodes["a"] == Node(
        "a",
        "task",
        all_of=("start",),
        successors=("end",),
        handler="raster.validate",
        pool="gdal",
        params={"source": "a/b"},
        retry=Retry(max_attempts=1, initial_delay_seconds=7),
        timeout_seconds=5.0,
    )
    b = nodes["b"]
    assert (b.pool, b.timeout_seconds, b.dispatch_timeout_seconds, b.priority) == ("gdal", 60, 9, "high")
    assert (b.retry.max_attempts, b.retry.initial_delay_seconds, b.resources) == (4, 7, Resources(memory_mb=100))
    assert (b.version, b.args, b.on_failure, b.when) == (3, {"x": 1}, "continue", "true")
    c = nodes["c"]
    assert c.fan_out == FanOut([1], "d", tolerated=2.5, tolerated_is_percent=True)
    assert (c.handler, c.pool, c.timeout_seconds) == ("sleep", "light", 86_400)
    assert nodes["d"].fan_in == FanIn("c", "sum", "slept_seconds")
    assert nodes["end"].predecessors == ("a", "b", "d")


def test_file_with_required_fields_only_compiles() -> None:
    made = compiled("workflow_id: test\nversion: 1\nnodes: {start: {type: start, next: end}, end: {type: end}}\n").plan
    assert made is not None
    assert (made.name, made.accepts, made.type, made.sla_seconds) == ("test", {}, "offline", None)
    assert set(made.nodes["start"].to_json()) == {"id", "type", "successors"}
