"""Compose and Kubernetes say only what the code knows: images, commands, settings, ports. No engine is asked."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.fernet import Fernet
from pydantic_settings import BaseSettings

from deployments.cli import VERBS
from deployments.stack.postgres import LOGIN_ROLES
from deployments.stack.prepare import FIRST_CLIENTS
from domain.settings import DomainSettings
from flows.settings import LoaderSettings, SourceSettings, TryLimits, WorkerSettings
from gateway.serving.settings import ServingSettings
from gateway.settings import GatewaySettings

REPOSITORY = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((REPOSITORY / "compose.yaml").read_text())
EXAMPLE = dict(
    line.split("=", 1)
    for line in (REPOSITORY / "deployments/compose.env.example").read_text().splitlines()
    if "=" in line and not line.startswith("#")
)
SETTINGS: dict[str, list[type[BaseSettings]]] = {
    "domain": [DomainSettings],
    "gateway": [GatewaySettings],
    "serving": [ServingSettings],
    "worker-light": [WorkerSettings, LoaderSettings, TryLimits, SourceSettings],
    "worker-gdal": [WorkerSettings, TryLimits, SourceSettings],
}
OF_STEPS = {"CAIRN_ADMIN_URL", *FIRST_CLIENTS.values(), *(f"CAIRN_PASSWORD_{role.upper()}" for role in LOGIN_ROLES)}
VARIABLE = re.compile(r"\$\{(\w+)(?::\?[^}]*)?\}")
BEHIND = ("gateway", "domain", "serving")  # a proxy, or our own gateway
PORTS = {"domain": 8001, "gateway": 8000, "serving": 8002, "prefect": 4200}
MANIFESTS = REPOSITORY / "deployments/kubernetes"


def targets(dockerfile: str) -> dict[str, str]:
    """Each target's own steps."""
    stages = re.split(r"^FROM .* AS ", (REPOSITORY / dockerfile).read_text(), flags=re.MULTILINE)[1:]
    return {stage.partition("\n")[0]: stage for stage in stages}


def names(settings: list[type[BaseSettings]]) -> set[str]:
    return {f"{one.model_config['env_prefix']}{name.upper()}" for one in settings for name in one.model_fields}


def filled() -> dict[str, str]:
    """The example, filled in as its comments say."""
    key = Fernet.generate_key().decode()
    made = {name: value or "a" * 40 for name, value in EXAMPLE.items()}
    keys = {name: f'["{key}"]' for name, value in EXAMPLE.items() if value.startswith("[")}
    return made | keys | {"PREFECT_AUTH_STRING": "cairn:secret"}


def environment(service: str) -> dict[str, str]:
    given = COMPOSE["services"][service].get("environment", {})
    values = filled()
    return {name: VARIABLE.sub(lambda found: values[found[1]], str(value)) for name, value in given.items()}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("CAIRN_"):
            monkeypatch.delenv(name)


def test_every_image_is_built_by_an_existing_target() -> None:
    built = {}
    for service in COMPOSE["services"].values():
        if build := service.get("build"):
            assert build["target"] in targets(build.get("dockerfile", "Dockerfile")), build
            built[service["image"]] = build
    ours = {service["image"] for service in COMPOSE["services"].values() if service["image"].startswith("cairn-")}
    assert ours == built.keys()


def test_every_command_of_the_manifests_exists() -> None:
    ran = 0
    for service in COMPOSE["services"].values():
        command = service.get("command", [])
        if command[:2] == ["python", "-m"]:
            assert importlib.util.find_spec(command[2]) is not None
            ran += 1
        if command[:1] == ["cairn"]:
            assert command[1] in VERBS
            ran += 1
    assert ran == 4


@pytest.mark.parametrize("service", COMPOSE["services"])
def test_service_is_given_only_settings_that_it_knows(service: str) -> None:
    given = {name for name in environment(service) if name.startswith("CAIRN_")}
    assert given <= (names(SETTINGS[service]) if service in SETTINGS else OF_STEPS)


@pytest.mark.parametrize("service", SETTINGS)
def test_every_service_starts_with_the_example_variables(
    service: str, bare: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(service).items():
        monkeypatch.setenv(name, value)
    for settings in SETTINGS[service]:
        assert settings().model_fields_set or settings in {TryLimits, SourceSettings}
    if service == "domain":
        DomainSettings().refuse_plain_http("PREFECT_API_URL", os.environ["PREFECT_API_URL"])
    monkeypatch.delenv("CAIRN_PLAINTEXT_HOSTS")
    with pytest.raises(ValueError, match="without TLS"):  # the names of this bridge's hosts are what allows it
        SETTINGS[service][0]()


@pytest.mark.parametrize("key", ["CAIRN_SECRETS_KEYS", "CAIRN_AUDIT_KEYS"])
def test_domain_without_one_of_its_keys_does_not_start(key: str, bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment("domain").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(key)
    with pytest.raises(ValueError, match=f"Set {key}.*CAIRN_DEVELOPMENT allows.*a key is made by"):
        DomainSettings()
    monkeypatch.setenv("CAIRN_DEVELOPMENT", "true")
    DomainSettings()


def test_each_service_trusts_only_the_proxy_in_front_of_it() -> None:
    """uvicorn reads the setting. Names mean nothing to it, and it says nothing about that."""
    services, [network] = COMPOSE["services"], COMPOSE["networks"]["default"]["ipam"]["config"]
    bridge, given_out = IPv4Network(network["subnet"]), IPv4Network(network["ip_range"])
    gateway = ip_address(services["gateway"]["networks"]["default"]["ipv4_address"])
    believed = {name: ip_address(environment(name)["FORWARDED_ALLOW_IPS"]) for name in BEHIND}
    assert believed == {"gateway": ip_address(network["gateway"]), "domain": gateway, "serving": gateway}
    assert gateway in bridge
    assert gateway not in given_out, "no other container may come to have it"
    assert given_out.subnet_of(bridge)
    assert [name for name, one in services.items() if "networks" in one] == ["gateway"], "all others get one of those"
    assert not [name for name in services if name not in BEHIND and "FORWARDED_ALLOW_IPS" in environment(name)]


def test_example_file_names_exactly_the_used_variables() -> None:
    asked = set(VARIABLE.findall((REPOSITORY / "compose.yaml").read_text()))
    assert asked == EXAMPLE.keys()


def test_compose_uses_the_ports_of_the_images_and_publishes_only_two() -> None:
    for service, port in PORTS.items():
        assert f'"--port", "{port}"' in targets("Dockerfile")[service]
        assert f"127.0.0.1:{port}/" in str(COMPOSE["services"][service]["healthcheck"]["test"])
    published = {name: service["ports"] for name, service in COMPOSE["services"].items() if "ports" in service}
    assert published == {"gateway": ["127.0.0.1:8000:8000"], "prefect": ["127.0.0.1:4200:4200"]}


def test_every_awaited_compose_service_has_a_healthcheck_or_ends() -> None:
    for service in COMPOSE["services"].values():
        for needed, how in service.get("depends_on", {}).items():
            other = COMPOSE["services"][needed]
            if how["condition"] == "service_healthy":
                assert "healthcheck" in other
            else:
                assert other["restart"] == "no"


# --- Kubernetes ---


def manifests() -> list[dict[str, Any]]:
    listed = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["resources"]
    assert set(listed) == {path.name for path in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml"}
    return [made for name in listed for made in yaml.safe_load_all((MANIFESTS / name).read_text())]


def of_kind(kind: str) -> Mapping[str, dict[str, Any]]:
    return {made["metadata"]["name"]: made for made in manifests() if made["kind"] == kind}


def containers() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, made in of_kind("Deployment").items():
        [container] = made["spec"]["template"]["spec"]["containers"]
        yield name, container


def test_cluster_deployments_run_existing_images_without_root() -> None:
    images = {service["image"] for service in COMPOSE["services"].values()}
    told = {image["name"] for image in yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["images"]}
    for name, container in containers():
        assert container["image"] in images & told
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        pod = of_kind("Deployment")[name]["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False


def test_cluster_settings_are_known_and_secrets_only_referenced() -> None:
    maps = of_kind("ConfigMap")
    assert of_kind("Secret") == {}
    for name, container in containers():
        told = {one["name"] for one in container.get("env", ())}
        for source in container["envFrom"]:
            if "configMapRef" in source:
                told |= maps[source["configMapRef"]["name"]]["data"].keys()
        assert {one for one in told if one.startswith("CAIRN_")} <= names(SETTINGS[name])
        assert any("secretRef" in source for source in container["envFrom"])
    loaders = [name for name, one in containers() if {"secretRef": {"name": "cairn-worker-light"}} in one["envFrom"]]
    assert loaders == ["worker-light"]  # where senders' files are opened there is no database to steal from


def test_cluster_services_are_given_their_trusted_proxy_and_public_address() -> None:
    maps = of_kind("ConfigMap")
    for name, container in containers():
        told: dict[str, str] = {}
        for source in container["envFrom"]:
            told |= maps.get(source.get("configMapRef", {}).get("name"), {}).get("data", {})
        assert ("FORWARDED_ALLOW_IPS" in told) is ("CAIRN_PUBLIC_URL" in told) is (name in BEHIND), name
        if name in BEHIND:
            assert ip_network(told["FORWARDED_ALLOW_IPS"]).prefixlen >= 8


def test_gdal_workers_require_confinement() -> None:
    [told] = [one["env"] for name, one in containers() if name == "worker-gdal"]
    assert {"name": "CAIRN_TRY_CONFINEMENT", "value": "required"} in told
    assert environment("worker-gdal")["CAIRN_TRY_CONFINEMENT"] == "required"
    assert "ENV CAIRN_TRY_CONFINEMENT=required" in targets("Dockerfile.worker")["gdal"]


def test_probes_and_services_use_listening_ports() -> None:
    for name, container in containers():
        [port] = container["ports"]
        assert port["containerPort"] == PORTS.get(name, 8080)
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            path = container[probe]["httpGet"]["path"]
            assert path in ({"/readyz", "/livez"} if name in PORTS else {"/health"})
    for name, service in of_kind("Service").items():
        assert service["spec"]["ports"][0]["port"] == PORTS[name]
    assert of_kind("PodDisruptionBudget").keys() == dict(containers()).keys()
    drained = [of_kind("Deployment")[name]["spec"]["template"]["spec"] for name in ("worker-light", "worker-gdal")]
    assert all(pod["terminationGracePeriodSeconds"] > 30 for pod in drained)


def test_network_policies_admit_only_the_callers_of_serving_and_domain() -> None:
    policies = of_kind("NetworkPolicy")
    assert policies["nobody"]["spec"]["podSelector"] == {}
    assert "ingress" not in policies["nobody"]["spec"]
    [rule] = policies["to-serving"]["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app": "gateway"}}}]
    [rule] = policies["to-domain"]["spec"]["ingress"]
    assert {str(one) for one in rule["from"]} == {
        str({"podSelector": {"matchLabels": {"app": "gateway"}}}),
        str({"podSelector": {"matchLabels": {"part": "worker"}}}),
    }


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl puts the manifests together where it is installed")
def test_kubectl_builds_the_manifests() -> None:
    done = subprocess.run(["kubectl", "kustomize", str(MANIFESTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = [one["kind"] for one in yaml.safe_load_all(done.stdout)]
    assert made.count("Deployment") == 5
