"""What a rollout makes of a pool's template: what was chosen before stays, all else follows the release."""

import copy
from typing import Any

import pytest

from deployments import pools
from deployments.pools import keeping

CPU, MEMORY = "cpu_limit", "memory_limit"


def variables(template: dict[str, Any]) -> dict[str, Any]:
    """The values of a template's variables."""
    return {name: field.get("default") for name, field in template["variables"]["properties"].items()}


def changed(template: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The template as operators or another release leave it, with these values of variables."""
    content = copy.deepcopy(template)
    for name, value in values.items():
        content["variables"]["properties"][name]["default"] = value
    return content


def released(**values: Any) -> dict[str, Any]:
    """The template of a later release, which has other values of its own."""
    content = changed(pools.template("kubernetes", "gdal"), **values)
    return keeping.signed({name: part for name, part in content.items() if name != keeping.WRITTEN})


NOW = pools.template("kubernetes", "gdal")
PROCESS = pools.template("process", "gdal")


def test_template_that_nobody_changed_follows_the_release() -> None:
    later = released(cpu_limit="3")
    assert pools.beside(later, NOW, ()) == later
    assert pools.beside(NOW, NOW, ()) == NOW


def test_value_that_an_operator_chose_stays_whatever_the_release_says() -> None:
    chosen = changed(NOW, memory_limit="16Gi")
    kept = pools.beside(released(cpu_limit="3", memory_limit="5Gi"), chosen, ())
    assert (variables(kept)[CPU], variables(kept)[MEMORY]) == ("3", "16Gi")
    again = pools.beside(released(), kept, ())
    assert variables(again)[MEMORY] == "16Gi", "and in the rollout after that"


def test_part_that_is_said_now_is_as_it_is_said() -> None:
    earlier = pools.beside(pools.template("kubernetes", "gdal", image="mine:1"), NOW, pools.IMAGE_PARTS)
    assert variables(earlier)["image"] == variables(earlier)["env"][pools.IMAGE] == "mine:1"
    unsaid = pools.beside(NOW, earlier, ())
    assert variables(unsaid)["image"] == variables(unsaid)["env"][pools.IMAGE] == "mine:1"
    said = pools.beside(pools.template("kubernetes", "gdal", image="mine:2"), unsaid, pools.IMAGE_PARTS)
    assert variables(said)["image"] == variables(said)["env"][pools.IMAGE] == "mine:2"


def test_variable_of_the_environment_that_an_operator_set_stays_beside_the_releases() -> None:
    environment = variables(NOW)["env"] | {"GDAL_CACHEMAX": "512", pools.CONFINEMENT: "available"}
    kept = variables(pools.beside(NOW, changed(NOW, env=environment), ()))["env"]
    assert kept == environment


def test_job_manifest_that_an_operator_edited_stays_with_the_variables_it_names() -> None:
    edited = copy.deepcopy(NOW)
    edited["job_configuration"]["job_manifest"]["spec"]["nodeSelector"] = "{{ selector }}"
    edited["variables"]["properties"]["selector"] = {"type": "object", "default": {"disk": "fast"}}
    kept = pools.beside(released(cpu_limit="3"), edited, ())
    assert kept["job_configuration"] == edited["job_configuration"]
    assert (variables(kept)["selector"], variables(kept)[CPU]) == ({"disk": "fast"}, "3")


def test_template_of_an_earlier_release_keeps_its_values_and_takes_the_rest() -> None:
    """It says nothing of who chose what."""
    found = {name: part for name, part in changed(NOW, cpu_limit="7").items() if name != keeping.WRITTEN}
    found["job_configuration"] = {"command": "{{ command }}"}
    kept = pools.beside(NOW, found, ())
    assert variables(kept)[CPU] == "7"
    assert kept["job_configuration"] == NOW["job_configuration"]


@pytest.mark.parametrize(
    ("command", "stays"),
    [("/srv/cairn/.venv/bin/python -I -S /srv/cairn/deployments/warm/launcher.py", False), ("nice python -m x", True)],
)
def test_path_of_a_servers_clone_goes_and_an_operators_command_stays(command: str, stays: bool) -> None:
    kept = pools.beside(PROCESS, changed(PROCESS, command=command), ())
    assert variables(kept)["command"] == (command if stays else None)


def test_cold_starts_stay_until_forking_is_said() -> None:
    cold = pools.beside(pools.template("process", "gdal", forks=False), PROCESS, pools.FORKING_PARTS)
    assert variables(cold)["env"][pools.FORK_RUNS] == "off"
    assert variables(pools.beside(PROCESS, cold, ()))["env"][pools.FORK_RUNS] == "off"
    assert pools.FORK_RUNS not in variables(pools.beside(PROCESS, cold, pools.FORKING_PARTS))["env"]
