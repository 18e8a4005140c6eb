"""What cannot read Python says of each pool what the registry says: images, manifests, extras, the pages for operators.

Whoever adds an entry is told here which files to write.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments import pools
from deployments.pools import CONFINEMENT
from flows.pools import INLINE, POOLS, SEGMENT_FLOW, WorkPool
from tests.support.one_more_pool import GPU

REPOSITORY = Path(__file__).resolve().parents[2]
LOADER = "CAIRN_DATABASE_LOADER_URL"
DOCUMENTED = ("docs/reference/workflow-language.md", "docs/how-to/run-workers.md", "docs/how-to/serve-pools.md")


def text(file: str) -> str:
    return (REPOSITORY / file).read_text()


def parsed(file: str) -> Any:
    return yaml.safe_load(text(file))


def differences(entries: Iterable[WorkPool]) -> Iterator[str]:
    """Where a file says something else of a pool than its entry does, or nothing."""
    for pool in entries:
        for file, is_so in said_of(pool):
            if not is_so:
                yield f"{file}: {pool.name}"


def said_of(pool: WorkPool) -> Iterator[tuple[str, bool]]:
    """Each file that must speak of the pool, and whether it says what the entry says."""
    yield (
        "prefect.yaml",
        (SEGMENT_FLOW, pool.name)
        in {
            (one["entrypoint"].rpartition(".")[2], one["work_pool"]["name"])
            for one in parsed("prefect.yaml")["deployments"]
            if one["name"] == pool.name
        },
    )
    yield "pyproject.toml", pool.extra in tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"]
    yield "deployments/locked", (REPOSITORY / f"deployments/locked/{pool.extra}.txt").is_file()
    yield "Dockerfile.worker", _is_built(pool)
    yield "compose.yaml", _is_composed(pool)
    yield "deployments/kubernetes/workers.yaml", _is_in_the_cluster(pool)
    images = parsed("deployments/kubernetes/kustomization.yaml")["images"]
    yield "deployments/kubernetes/kustomization.yaml", pool.image in {one["name"] for one in images}
    settings = text("docs/reference/settings.md")
    yield "docs/reference/settings.md", f"{pool.name}={pool.worker_type}" in settings and f"`{pool.image}`" in settings
    for file in DOCUMENTED:
        yield file, f"`{pool.name}`" in text(file)


def _is_built(pool: WorkPool) -> bool:
    stages = re.split(r"^FROM .* AS ", text("Dockerfile.worker"), flags=re.MULTILINE)[1:]
    [stage] = [one for one in stages if one.partition("\n")[0] == pool.extra] or [""]
    starts = f'CMD ["cairn", "worker", "start", "--pool", "{pool.name}", "--with-healthcheck"]' in stage
    is_confined = f"ENV {CONFINEMENT}=required" in stage
    return f"-r deployments/locked/{pool.extra}.txt" in stage and starts and is_confined is pool.is_confined


def _is_composed(pool: WorkPool) -> bool:
    services = parsed("compose.yaml")["services"]
    service = services.get(pool.worker, {})
    told = service.get("environment", {})
    built = {one["image"]: one["build"]["target"] for one in services.values() if "build" in one}
    return (
        service.get("image") == pool.image
        and built.get(pool.image) == pool.extra
        and (LOADER in told) is pool.is_told_database
        and (told.get(CONFINEMENT) == "required") is pool.is_confined
    )


def _is_in_the_cluster(pool: WorkPool) -> bool:
    made = list(yaml.safe_load_all(text("deployments/kubernetes/workers.yaml")))
    [container] = [
        one["spec"]["template"]["spec"]["containers"][0]
        for one in made
        if (one["kind"], one["metadata"]["name"]) == ("Deployment", pool.worker)
    ] or [{}]
    loader = {"secretRef": {"name": f"cairn-{pool.worker}"}}  # the one that holds the loader's login
    required = {"name": CONFINEMENT, "value": "required"}
    return (
        container.get("image") == pool.image
        and (loader in container.get("envFrom", ())) is pool.is_told_database
        and (required in container.get("env", ())) is pool.is_confined
    )


def test_every_file_says_of_each_pool_what_its_entry_says() -> None:
    assert [*differences(POOLS.values())] == []


def test_added_pool_names_every_file_that_lacks_it() -> None:
    told = [*differences([*POOLS.values(), GPU])]
    assert {one.rpartition(": ")[2] for one in told} == {"gpu"}
    assert len(told) == len([*said_of(GPU)]), "every file is told of"


def test_a_file_that_contradicts_its_entry_is_found() -> None:
    other = WorkPool("gdal", "", INLINE, image="cairn-worker-light", extra="gdal", is_told_database=True)
    assert {one.partition(":")[0] for one in differences([other])} == {
        "Dockerfile.worker", "compose.yaml", "deployments/kubernetes/workers.yaml", "docs/reference/settings.md"
    }  # fmt: skip


def test_no_file_knows_a_worker_that_the_registry_does_not() -> None:
    workers = {pool.worker for pool in POOLS.values()}
    assert {name for name in parsed("compose.yaml")["services"] if name.startswith("worker-")} == workers
    made = yaml.safe_load_all(text("deployments/kubernetes/workers.yaml"))
    assert {one["metadata"]["name"] for one in made} == workers
    segments = [one for one in parsed("prefect.yaml")["deployments"] if one["entrypoint"].endswith(f".{SEGMENT_FLOW}")]
    assert [one["name"] for one in segments] == list(POOLS)
    started = re.findall(r'"--pool", "(\w+)"', text("Dockerfile.worker"))
    assert started == list(POOLS)


def test_base_job_templates_are_there_and_name_no_pool() -> None:
    files = {file.stem: file.read_text() for file in Path(pools.__file__).parent.glob("*.json")}
    assert files.keys() == set(pools.KINDS)
    assert not [kind for kind, content in files.items() for pool in POOLS.values() if pool.image in content]


@pytest.mark.parametrize("pool", [*POOLS, GPU.name])
def test_sizes_are_of_variables_that_templates_have(pool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POOLS._by_name, GPU.name, GPU)
    assert POOLS[pool].sizes.keys() <= set(pools.KINDS)
    for kind in pools.KINDS:
        variables = pools.template(kind, pool)["variables"]["properties"]
        assert all(variables[name]["default"] == value for name, value in POOLS[pool].sizes.get(kind, {}).items())
