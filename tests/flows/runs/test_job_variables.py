"""What a node needs becomes job variables of each kind of worker, which its own template understands."""

from typing import Any

import jsonschema
import pytest

from deployments import pools
from flows.compiler.needs import most, rendered_needs
from flows.compiler.partition import child_queue
from flows.compiler.plan import NO_RESOURCES, Resources
from flows.runs.child_flow_runs.job_variables import NeedsUnmet, job_variables

NEEDS = Resources(memory_mb=2500.5, cpus=1.5, gpu=1)
KERNEL = {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges"], "init": True}


def told(kind: str, needs: Resources) -> dict[str, Any]:
    """The job variables, which fit the variables of the pool's template."""
    template = pools.template(kind, "gdal")
    said = job_variables(kind, template, needs)
    fields = template["variables"]["properties"]
    for name, value in said.items() if kind not in {"process", "cairn-inline"} else ():
        jsonschema.validate(value, fields[name])
    return said


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("process", {"memory_mb": 2500.5, "cpus": 1.5, "gpu": 1}),
        (
            "kubernetes",
            {
                "memory_request": "2501Mi",
                "memory_limit": "2501Mi",
                "cpu_request": "1500m",
                "cpu_limit": "1500m",
                "gpu": 1,
            },
        ),
        (
            "docker",
            {
                "mem_limit": "2501m",
                "container_create_kwargs": KERNEL
                | {
                    "nano_cpus": 1_500_000_000,
                    "device_requests": [{"Driver": "nvidia", "Count": 1, "Capabilities": [["gpu"]]}],
                },
            },
        ),
    ],
)
def test_needs_are_said_as_the_kind_of_worker_takes_them(kind: str, said: dict[str, Any]) -> None:
    assert told(kind, NEEDS) == said


@pytest.mark.parametrize("kind", pools.KINDS)
def test_nothing_is_said_where_nothing_is_needed(kind: str) -> None:
    assert told(kind, NO_RESOURCES) == {}


def test_container_instances_get_tenths_of_a_gigabyte_whole_processors_and_no_gpu() -> None:
    assert told("azure-container-instance", Resources(2500.5, 1.5)) == {"memory": 2.6, "cpu": 2.0}
    with pytest.raises(NeedsUnmet, match="no GPUs"):
        told("azure-container-instance", NEEDS)


def test_stretch_needs_the_most_of_what_its_nodes_need() -> None:
    nodes = [Resources(512, 4), Resources("{{ later }}", gpu=2), Resources(2048, 1), NO_RESOURCES]
    assert most(nodes) == Resources(2048, 4, 2)
    assert most([]) == NO_RESOURCES


def test_memory_is_reckoned_from_what_an_earlier_node_told() -> None:
    names = {"nodes": {"validate": {"output": {"estimated_memory_mb": 1234.5}}}}
    template = Resources("{{ nodes.validate.output.estimated_memory_mb * 2 }}", 1)
    assert rendered_needs(template, names) == Resources(2469.0, 1)
    for wrong in ("{{ 'much' }}", "{{ 0 }}", "{{ true }}"):
        with pytest.raises(ValueError, match="not a number of megabytes"):
            rendered_needs(Resources(wrong), names)


@pytest.mark.parametrize(
    ("asked", "own", "cap", "queue"),
    [
        (None, "normal", "high", "normal"),
        ("low", "high", "normal", "low"),
        ("high", "normal", "high", "high"),
        ("high", "normal", "normal", "normal"),
        ("high", "low", "normal", "normal"),
        ("high", "high", "low", "high"),
        ("high", "normal", None, "high"),
        ("high", "default", "high", "default"),
        ("high", None, "high", None),
    ],
)
def test_child_run_takes_the_queue_of_its_nodes_priority_up_to_the_cap(
    asked: str | None, own: str | None, cap: str | None, queue: str | None
) -> None:
    assert child_queue(asked, own, cap) == queue
