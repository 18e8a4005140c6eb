"""Rules that statements join are the pure rules: both asked about every case there is, over a real database."""

from itertools import chain, combinations, product

import psycopg
from sqlalchemy import select

from domain.models import Asset
from domain.repositories import controls
from domain.repositories.assets import is_public
from domain.repositories.controls import Controls
from domain.repositories.exports import Exports
from domain.rules.control import is_held
from domain.rules.exports import exposed
from gateway.serving.access import is_readable
from gateway.serving.lookup import Product
from tests.support.cluster import TestDatabase
from tests.support.platform import Domain

WORKFLOWS = ("one", "other", "")
PLATFORMS = ("ddh", "arcgis", "", None)
SETTINGS = (
    ("pause", "*"),
    ("pause", "workflow:one"),
    ("pause", "workflow:"),
    ("pause", "platform:ddh"),
    ("pause", "platform:"),
    ("pause", "pool:light"),
    ("in_flight", "workflow:other"),
    ("open_requests", "platform:arcgis"),
)
SUBSETS = list(chain.from_iterable(combinations(SETTINGS, size) for size in range(len(SETTINGS) + 1)))
PUT = "insert into app.settings (kind, name, value, updated_by) values (%s, %s, '1', 'somebody')"
HELD = f"""
    select workflow_id, platform_id, {controls.is_held("w.workflow_id", "p.platform_id")}
    from unnest(%s::text[]) as w (workflow_id) cross join unnest(%s::text[]) as p (platform_id)
"""  # noqa: S608 - our own words


def test_statements_and_the_pause_rule_hold_the_same_runs(shared_database: TestDatabase) -> None:
    with psycopg.connect(shared_database.url()) as connection:
        for settings in SUBSETS:
            connection.execute("delete from app.settings")
            connection.cursor().executemany(PUT, settings)
            pauses = {name for kind, name in settings if kind == "pause"}
            rows = connection.execute(HELD.encode(), [list(WORKFLOWS), list(PLATFORMS)]).fetchall()
            assert len(rows) == len(WORKFLOWS) * len(PLATFORMS)
            for workflow_id, platform_id, held in rows:
                assert held is is_held(pauses, workflow_id, platform_id), (settings, workflow_id, platform_id)
        connection.rollback()


async def test_pause_named_to_a_start_is_one_that_holds_it(domain: Domain) -> None:
    for names in chain.from_iterable(
        combinations(("*", "workflow:one", "platform:ddh", "platform:"), n) for n in (0, 1, 2)
    ):
        async with domain.service.database.transaction() as session:
            for name in names:
                await Controls(session).put("pause", name, "because", "somebody")
            pauses, _ = await Controls(session).of_dispatch()
            assert pauses == set(names)
            for workflow_id, platform_id in product(WORKFLOWS, PLATFORMS):
                told = await Controls(session).paused(workflow_id, platform_id)
                assert (told is not None) is is_held(pauses, workflow_id, platform_id)
                assert told is None or is_held({told}, workflow_id, platform_id)
            await session.rollback()


# What a version may be: never there, not served, served by its first revision, by its second, or deleted.
VERSIONS = ("none", "waits", "first", "second", "deleted")
FILL = """
    set local session_replication_role = replica;
    insert into app.assets (asset_id, platform_id, refs, data_type, clearance, exposure, deleted_at)
    select concat_ws('.', c, e, d, older, newer), 'ddh', '{}', 'raster', c, e, case when d then now() end
    from unnest(array['uncleared', 'ouo', 'public']) c, unnest(array['latest_only', 'all_versions']) e,
        unnest(array[false, true]) d, unnest(%(versions)s::text[]) older, unnest(%(versions)s::text[]) newer;
    insert into app.asset_versions (asset_id, ordinal, label, newest_revision, served_revision, deleted_at)
    select a.asset_id, v.ordinal, v.ordinal::text, 2,
        case v.kind when 'second' then 2 when 'waits' then null else 1 end, case when v.kind = 'deleted' then now() end
    from app.assets a cross join lateral (
        values (1, split_part(a.asset_id, '.', 4)), (2, split_part(a.asset_id, '.', 5))) as v (ordinal, kind)
    where v.kind <> 'none';
    insert into app.revisions (asset_id, ordinal, revision, request_id, fingerprint, approval, processing)
    select v.asset_id, v.ordinal, r, gen_random_uuid(), '',
        case when r = v.served_revision then 'approved' else 'pending_review' end, 'completed'
    from app.asset_versions v, generate_series(1, 2) r;
    insert into app.artifacts (run_id, asset_id, ordinal, revision, role, zone, name, media_type, sha256, size_bytes)
    select gen_random_uuid(), asset_id, ordinal, revision, 'cog', 'silver', 'a.tif', 'image/tiff', '', 1
    from app.revisions;
"""
PRODUCTS = """
    select asset_id, platform_id, ordinal, revision, clearance, approval, is_latest, exposure, cog_name
    from api.served_products
"""


async def test_statements_and_rules_agree_on_what_is_public(domain: Domain) -> None:
    """The rule of exports, its condition in SQL, and what serving shows to nobody in particular."""
    versions = "{" + ",".join(VERSIONS) + "}"
    with psycopg.connect(domain.database.url()) as connection:
        connection.execute(FILL.replace("%(versions)s", f"'{versions}'").encode())
    served = [Product(*row) for row in domain.rows(PRODUCTS)]
    shown = {(each.asset_id, each.ordinal, each.revision) for each in served if is_readable(each, None)}
    async with domain.service.database.transaction() as session:
        assets = (await session.scalars(select(Asset))).all()
        public = set(await session.scalars(select(Asset.asset_id).where(is_public())))
        out = {asset.asset_id: exposed(await Exports(session).publicity(asset)) for asset in assets}
    assert len(assets) == 3 * 2 * 2 * 5 * 5
    assert {(asset_id, *revision) for asset_id, revisions in out.items() for revision in revisions} == shown
    assert {asset_id for asset_id, revisions in out.items() if revisions} == public
    told = {name: name.split(".") for name in out}
    assert public == {
        name
        for name, (clearance, _, deleted, *versions) in told.items()
        if clearance == "public" and deleted == "f" and {"first", "second"} & set(versions)
    }
