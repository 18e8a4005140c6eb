"""Processed versions for benchmarks of what comes after: rows as a commit leaves them, files by the real handlers."""

from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg.types.json import Jsonb

from benchmarks._servers import Postgres
from deployments import sample
from domain.contracts.artifacts import Artifact
from domain.security import secret_hash
from flows.handlers.context import Context
from flows.handlers.raster.declarations import CogResult, CreateCogParams, RegisterItemParams, create_cog
from flows.handlers.stac.staging import register_item
from flows.storage import Zones

SOURCE = "bench/sample.tif"
REVIEWER = "bench-reviewer"


def made_raster(root: Path, size: int) -> CogResult:
    """The sample raster as a product."""
    path = root / "bronze" / SOURCE
    path.parent.mkdir(parents=True)
    sample.write(path, seed=1, size=size)
    return create_cog(CreateCogParams(source=SOURCE), context_of(root, {}, "bench"))


def add_staff(cluster: Postgres) -> None:
    """A partner whose submissions are reviewed, and who reviews them."""
    with psycopg.connect(cluster.url()) as connection:
        for client_id, role, platform_id in (("bench", "partner", "ddh"), (REVIEWER, "reviewer", None)):
            connection.execute(
                "insert into app.clients (client_id, role, platform_id, display_name, secret_hash)"
                " values (%s, %s, %s, %s, %s)",
                [client_id, role, platform_id, client_id, secret_hash(client_id)],
            )
        connection.execute(
            "insert into app.workflow_definitions (workflow_id, version, digest, source, plan)"
            " values ('bench', '1', '', '', '{}')"
        )


def add_processed(cluster: Postgres, root: Path, product: CogResult, asset_id: str) -> None:
    """Add an asset whose first version waits for its review."""
    facts: dict[str, object] = {"asset_id": asset_id, "version_ordinal": 0, "revision": 1}
    home = f"assets/{asset_id}/0-r1/a1"
    context = context_of(root, facts | {"version_label": "1", "request_id": "bench"}, home)
    product = moved(product, root, home)
    item = register_item(RegisterItemParams(product=product, source=SOURCE), context)
    request_id, run_id = uuid4(), uuid4()
    outputs = {"bands": [band.model_dump(mode="json") for band in product.bands], "bounds": product.bounds_wgs84}
    with psycopg.connect(cluster.url()) as connection:
        connection.execute(
            "insert into app.assets (asset_id, platform_id, refs, data_type) values (%s, 'ddh', %s, 'raster')",
            [asset_id, Jsonb({"dataset_id": "bench", "resource_id": asset_id})],
        )
        connection.execute(
            "insert into app.asset_versions (asset_id, ordinal, label, newest_revision) values (%s, 0, '1', 1)",
            [asset_id],
        )
        connection.execute(
            "insert into app.revisions (asset_id, ordinal, revision, request_id, fingerprint, processing, outputs)"
            " values (%s, 0, 1, %s, '', 'completed', %s)",
            [asset_id, request_id, Jsonb(outputs)],
        )
        connection.execute(
            "insert into app.requests (request_id, platform_id, client_id, asset_id, ordinal, revision, data_type,"
            " operation, submitted, fingerprint, priority, status) values (%s, 'ddh', 'bench', %s, 0, 1, 'raster',"
            " 'ingest', '{}', '', 'normal', 'completed')",
            [request_id, asset_id],
        )
        connection.execute(
            "insert into app.runs (run_id, request_id, sequence, workflow_id, version, digest, priority, inputs, state)"
            " values (%s, %s, 0, 'bench', '1', '', 'normal', '{}', 'completed')",
            [run_id, request_id],
        )
        for artifact in [*product.artifacts, *item.artifacts]:
            _add_artifact(connection, artifact, run_id, asset_id)


def moved(product: CogResult, root: Path, home: str) -> CogResult:
    """Return the same files under another revision's names, since a revision owns its files. Nothing is copied."""
    artifacts = []
    for made in product.artifacts:
        name = f"{home}/{made.name.rpartition('/')[2]}"
        place = root / made.zone / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.hardlink_to(root / made.zone / made.name)
        artifacts.append(made.model_copy(update={"name": name}))
    return product.model_copy(update={"cog": artifacts[0].name, "artifacts": artifacts})


def _add_artifact(connection: psycopg.Connection, artifact: Artifact, run_id: object, asset_id: str) -> None:
    values = [run_id, asset_id, artifact.role, artifact.zone, artifact.name, artifact.media_type, artifact.sha256]
    connection.execute(
        "insert into app.artifacts (run_id, asset_id, ordinal, revision, role, zone, name, media_type, sha256,"
        " size_bytes) values (%s, %s, 0, 1, %s, %s, %s, %s, %s, %s)",
        [*values, artifact.size_bytes],
    )


def context_of(root: Path, facts: dict[str, object], prefix: str) -> Context:
    workdir = root / "work"
    workdir.mkdir(exist_ok=True)
    return Context(
        run_id="bench",
        node_id="bench",
        storage=Zones.local(root),
        workdir=workdir,
        output_prefix=prefix,
        facts=facts,
    )
