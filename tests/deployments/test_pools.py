"""The base job templates hold against the workers that read them.

The workers for processes, Docker and Azure Container Instances are installed, so their own classes read the templates.
The one for Kubernetes is not: its template is held against the schema that the pinned Prefect carries in its registry
of worker types.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import prefect
import pytest
import yaml

from deployments import pools
from flows.pools import POOLS
from tests.support.job_templates import INSTALLED
from tests.support.prefect_server import PrefectServer

REGISTRY = Path(prefect.__file__).parent / "server/api/collections_data/views/aggregate-worker-metadata.json"
KUBERNETES = Path(pools.__file__).parents[1] / "kubernetes"
PLACEHOLDER = re.compile(r"\{\{ (\w+) \}\}")
NO_SECRETS = {pools.JOB_TEMPLATE, pools.IMAGE, pools.CONFINEMENT}
# What our Kubernetes template has and the worker's own has not: a container's GPUs.
OURS_ALONE = {"gpu": pools.template("kubernetes", "gdal")["variables"]["properties"]["gpu"]}
REFERENCE = re.compile(r"\{\{ prefect\.(blocks|variables)\..+ \}\}")
IN_A_CONTAINER = [kind for kind in pools.KINDS if kind not in {"process", "cairn-inline"}]
EACH = pytest.mark.parametrize(("kind", "pool"), [(kind, pool) for kind in pools.KINDS for pool in POOLS])


def own_template(kind: str) -> dict[str, Any]:
    """What the worker itself would use."""
    if kind in INSTALLED:
        return INSTALLED[kind].get_default_base_job_template()
    registry = json.loads(REGISTRY.read_text())
    (found,) = (workers[kind] for workers in registry.values() if kind in workers)
    template: dict[str, Any] = found["default_base_job_configuration"]
    return template


@EACH
def test_every_template_variable_is_known_to_its_worker(kind: str, pool: str) -> None:
    ours, theirs = pools.template(kind, pool), own_template(kind)
    own = theirs["variables"]["properties"] | OURS_ALONE
    for name, field in ours["variables"]["properties"].items():
        assert _without_default(field) == _without_default(own[name])
    assert set(ours["job_configuration"]) <= set(theirs["job_configuration"])


def _without_default(field: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in field.items() if name != "default"}


@EACH
def test_every_placeholder_is_a_variable_and_every_variable_is_used(kind: str, pool: str) -> None:
    template = pools.template(kind, pool)
    used = set(PLACEHOLDER.findall(json.dumps(template["job_configuration"])))
    assert used == set(template["variables"]["properties"])


@EACH
def test_every_default_fits_its_schema(kind: str, pool: str) -> None:
    variables = pools.template(kind, pool)["variables"]
    for name, field in variables["properties"].items():
        if "default" in field and field["default"] is not None:
            jsonschema.validate(
                field["default"], {**field, **{k: variables.get(k, {}) for k in ("$defs", "definitions")}}
            )
        assert name not in variables.get("required", []) or "default" in field


@EACH
def test_flow_runs_in_containers_of_the_gdal_pool_require_confinement(kind: str, pool: str) -> None:
    environment = pools.template(kind, pool)["variables"]["properties"].get("env", {}).get("default", {})
    wanted = "required" if kind in IN_A_CONTAINER and pool == "gdal" else None
    assert environment.get(pools.CONFINEMENT) == wanted


@EACH
def test_templates_hold_no_secret(kind: str, pool: str) -> None:
    fields = pools.template(kind, pool)["variables"]["properties"]
    environment = fields.get("env", {}).get("default", {})
    values = [value for name, value in environment.items() if name not in NO_SECRETS]
    values += [field["default"] for field in fields.values() if field.get("writeOnly") and "default" in field]
    assert all(REFERENCE.fullmatch(value) for value in values)


@pytest.mark.parametrize("kind", IN_A_CONTAINER)
def test_light_pool_has_smaller_resources_than_gdal_and_each_its_image(kind: str) -> None:
    light, gdal = (pools.template(kind, pool)["variables"]["properties"] for pool in ("light", "gdal"))
    assert light["image"]["default"] == "cairn-worker-light"
    assert gdal["image"]["default"] == "cairn-worker-gdal"
    for name, small in POOLS["light"].sizes[kind].items():
        assert small != gdal[name]["default"]
    named = pools.template(kind, "gdal", image="registry/worker:2")
    assert named["variables"]["properties"]["image"]["default"] == "registry/worker:2"


@EACH
def test_template_names_no_file_of_this_machine(kind: str, pool: str) -> None:
    """Workers of other hosts read it."""
    told = json.dumps(pools.template(kind, pool))
    assert str(Path(pools.__file__).parents[2]) not in told
    assert sys.prefix not in told


def test_unknown_pool_type_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        pools.UnknownType, match=r"'ecs'.*cairn-inline, process, docker, kubernetes, azure-container-instance"
    ):
        pools.template("ecs", "gdal")


def test_a_pod_has_the_workers_secret_its_limits_and_no_privilege() -> None:
    spec = pools.template("kubernetes", "gdal")["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "cairn-worker"}}]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False  # nothing in a flow run asks the cluster
    assert spec["terminationGracePeriodSeconds"] > 30  # a drain's time
    assert spec["restartPolicy"] == "Never"


def test_pod_has_the_label_that_admits_it_to_the_domain() -> None:
    """Where nobody reaches anybody by default, a flow run without the workers' label cannot even claim its attempt."""
    pod = pools.template("kubernetes", "gdal")["job_configuration"]["job_manifest"]["spec"]["template"]
    policies = yaml.safe_load_all((KUBERNETES / "network.yaml").read_text())
    [allowed] = [one["spec"]["ingress"] for one in policies if one["metadata"]["name"] == "to-domain"]
    selectors = [peer["podSelector"]["matchLabels"] for rule in allowed for peer in rule["from"]]
    assert pod["metadata"]["labels"] in selectors


@pytest.fixture(scope="module")
def read(prefect_server: PrefectServer) -> dict[str, dict[str, Any]]:
    """What each worker makes of its template for one flow run. In a process of its own: Prefect leaves sockets open."""
    done = prefect_server.run_module("tests.support.job_templates")
    assert done.returncode == 0, done.stderr
    answers: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("kind", INSTALLED)
def test_template_is_read_by_its_worker_class(read: dict[str, dict[str, Any]], kind: str, pool: str) -> None:
    made = read[f"{kind}/{pool}"]
    assert made["command"]
    if kind not in IN_A_CONTAINER:
        return
    assert made["env"]["CAIRN_WORKER_TOKEN"] == "the-token"
    assert made["env"]["CAIRN_DOMAIN_URL"] == "the-cairn_domain_url"
    assert made["image"] == made["env"]["CAIRN_IMAGE"] == f"cairn-worker-{pool}"
    assert made["env"]["CAIRN_JOB_TEMPLATE"] == kind


def test_azure_container_runs_the_image_without_prefects_entrypoint(read: dict[str, dict[str, Any]]) -> None:
    """Our images have no /opt/prefect/entrypoint.sh, which the worker would put before the command."""
    made = read["azure-container-instance/gdal"]
    container = made["arm_template"]["resources"][0]["properties"]["containers"][0]["properties"]
    assert container["command"][0] != "/opt/prefect/entrypoint.sh"
    assert container["resources"]["requests"] == {"cpu": 2.0, "memoryInGB": 4.0}
    assert made["resource_group_name"] == "the-cairn_azure_resource_group"
