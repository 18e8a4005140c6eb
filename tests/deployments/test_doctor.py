"""`cairn doctor`: each check says what is and what to do, and nothing is changed by looking."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.script import ScriptDirectory
from click.testing import CliRunner

from deployments.cli import cairn
from deployments.doctor import database, examination, folder, machine, running
from deployments.doctor.finding import Finding
from deployments.stack.ports import PREFERRED
from deployments.stack.postgres import find_binaries
from deployments.stack.state import StackState
from domain.db import MIGRATIONS
from domain.rules.holds import NO_ROOM, PAUSED, in_words
from flows.pools import POOLS
from flows.tries.confinement import Confinement, held_here
from tests.support.cluster import TestDatabase


def verdicts(findings: list[Finding]) -> dict[str, str]:
    return {finding.check: finding.verdict for finding in findings}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment of its own, with a folder that is not there yet."""
    for name in ("CAIRN_DATABASE_URL", "DATABASE_URL", "CAIRN_TRY_CONFINEMENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CAIRN_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def test_doctor_finds_this_machine_fit_and_creates_nothing(alone: Path) -> None:
    told = CliRunner().invoke(cairn, ["doctor", "--json"])
    answer = json.loads(told.stdout)
    found = {check["check"]: check for check in answer["checks"]}
    assert {"python", "postgresql", "postgis", "redis-server", "setpriv", "disk", "ports", "stack"} <= found.keys()
    assert [found[name]["verdict"] for name in ("python", "postgresql", "postgis", "redis-server")] == ["ok"] * 4
    assert told.exit_code == (0 if answer["healthy"] else 1)
    assert answer["healthy"] is (answer["counts"]["wrong"] == 0)
    assert not alone.exists()


def test_doctor_prints_one_line_and_advice_for_each_check(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    told = CliRunner().invoke(cairn, ["doctor"])
    assert told.exit_code == 1
    [line] = [line for line in told.stdout.splitlines() if " redis-server " in line]
    assert line.startswith("wrong ")
    assert line.endswith("not installed: Run `make setup`, or install the package redis-server.")
    assert told.stdout.splitlines()[-1].endswith(" wrong.")


def test_doctor_loads_little_before_it_looks() -> None:
    """What it loads before it looks is little: it has to work where packages are missing."""
    heavy = "{'sqlalchemy', 'prefect', 'fastapi', 'httpx', 'rasterio', 'psycopg', 'rich', 'pydantic'}"
    code = f"import sys, deployments.cli.doctor, deployments.doctor.examination; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_pool_or_queue_that_is_held_in_prefect_is_a_warning_with_the_command_that_takes_it_back() -> None:
    held = {"gdal": in_words("gdal", PAUSED), "gdal/low": in_words("gdal/low", NO_ROOM)}
    pool, queue = running.held({"held": held})
    assert (pool.verdict, pool.check, pool.detail) == ("warning", "pool gdal", "pool gdal is paused in Prefect")
    assert "`prefect work-pool resume gdal`" in pool.advice
    assert (queue.check, queue.advice) == ("queue gdal/low", "Give it another: `cairn deploy --limit gdal/low=none`.")
    assert running.held({"held": {}}) == []


def test_old_python_is_reported_as_wrong() -> None:
    assert machine.python((3, 10, 2)).verdict == "wrong"
    assert machine.python((3, 11, 0)).verdict == "ok"


def test_postgresql_without_programs_or_postgis_is_reported_as_wrong(tmp_path: Path) -> None:
    assert verdicts(machine.postgres(None, ())) == {"postgresql": "wrong"}
    assert verdicts(machine.postgres(tmp_path, [tmp_path])) == {"postgresql": "ok", "postgis": "wrong"}
    (tmp_path / "postgis.control").touch()
    assert verdicts(machine.postgres(tmp_path, [tmp_path])) == {"postgresql": "ok", "postgis": "ok"}
    assert any((place / "postgis.control").exists() for place in machine.extension_folders(find_binaries()))


@pytest.mark.parametrize(("free_gb", "verdict"), [(0.5, "wrong"), (3, "warning"), (50, "ok")])
def test_verdict_on_the_disk_follows_its_free_space(
    free_gb: float, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": free_gb * 1e9})
    monkeypatch.setattr("deployments.doctor.machine.shutil.disk_usage", lambda _place: usage)
    assert machine.disk(tmp_path).verdict == verdict


def test_taken_port_is_reported_by_number(monkeypatch: pytest.MonkeyPatch, alone: Path) -> None:
    with socket.socket() as program:
        program.bind(("127.0.0.1", 0))
        program.listen()
        taken = program.getsockname()[1]
        monkeypatch.setitem(PREFERRED, "gateway", taken)
        [found] = [one for one in examination.examine(StackState(alone)) if one.check == "ports"]
    assert found.verdict == "warning"
    assert f"{taken} (gateway)" in found.detail


@pytest.mark.parametrize(
    ("held", "wanted", "verdict"),
    [
        ({"landlock", "seccomp", "threads"}, "required", "ok"),
        ({"landlock", "seccomp", "threads"}, "available", "ok"),
        ({"seccomp", "threads"}, "available", "warning"),
        ({"seccomp", "threads"}, "required", "wrong"),
        ({"landlock", "seccomp"}, "required", "wrong"),
        ({"landlock", "seccomp", "threads"}, "off", "warning"),
    ],
)
def test_verdict_on_confinement_follows_kernel_and_setting(held: set[str], wanted: str, verdict: str) -> None:
    assert machine.confinement(held, wanted).verdict == verdict


def test_confinement_is_tried_in_another_process() -> None:
    held = held_here()
    child = os.fork()
    if child == 0:  # the same, done here
        os._exit(0 if set(Confinement([], []).take_hold(lambda _: None)) == held else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert Path("/etc/passwd").read_text()  # this process was not confined


def test_a_folder_whose_secrets_others_may_read_is_wrong(tmp_path: Path) -> None:
    state = StackState(tmp_path / "state")
    assert folder.folder(state).verdict == "ok"
    state.create()
    assert state.secrets
    assert folder.folder(state).verdict == "ok"
    (state.root / "secrets.json").chmod(0o640)
    found = folder.folder(state)
    assert (found.verdict, found.advice) == ("wrong", f"chmod 600 {state.root / 'secrets.json'}")


def test_verdict_on_the_stack_follows_its_phase() -> None:
    assert running.stack(None).verdict == "ok"
    assert running.stack({"phase": "ready", "ready_seconds": 9}).verdict == "ok"
    assert running.stack({"phase": "starting"}).verdict == "warning"
    failed = running.stack({"phase": "failed", "failure": {"message": "domain ended.", "log": "domain.log"}})
    assert (failed.verdict, failed.advice) == ("wrong", "See domain.log.")


def test_services_that_do_not_answer_are_named_with_their_log() -> None:
    report: dict[str, Any] = {
        "services": {"domain": {"healthy": True}, "serving": {"healthy": False, "log": "a/serving.log"}},
        "workers": [{"name": "worker-gdal", "healthy": False}],
    }
    found = {finding.check: finding for finding in running.services(report, "logs")}
    assert {name: one.verdict for name, one in found.items()} == {
        "domain": "ok", "serving": "wrong", "worker-gdal": "wrong"
    }  # fmt: skip
    assert found["serving"].advice == "See a/serving.log."
    assert found["worker-gdal"].advice == "See logs/worker-gdal.log."


def test_database_is_checked_for_schema_workers_and_clock(database: TestDatabase) -> None:
    pools = list(POOLS)
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute("insert into app.pool_workers values ('light', 'w', clock_timestamp())")
        connection.execute("insert into app.pool_workers values ('gdal', 'w', clock_timestamp() - interval '1 hour')")
        found = verdicts(_examined(database, pools))
        assert found == {
            "database": "ok", "postgis": "ok", "clock": "ok", "schema": "ok", "pool light": "ok", "pool gdal": "wrong",
            "callback secrets": "ok", "audit": "ok", "leftovers": "ok", "source folders": "ok",
        }  # fmt: skip
        assert "pool light" not in verdicts(_examined(database, ()))  # no stack is up: nobody has to serve
        connection.execute("delete from app.pool_workers")
        connection.execute("update app.alembic_version set version_num = '0009'")
        found = verdicts(_examined(database, pools))
        assert (found["schema"], found["pool light"]) == ("wrong", "wrong")


def test_readable_secrets_in_the_database_are_reported(database: TestDatabase) -> None:
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute(
            "insert into app.clients (client_id, role, display_name, secret_hash) values ('c', 'partner', '', '')"
        )
        connection.execute(
            "insert into app.callback_secrets (client_id, sealed) values ('c', 'plain:whsec_x'), ('c', 'fernet:x')"
        )
        connection.execute("insert into app.audit (actor, role, action, subject) values ('c', 'partner', 'a', 's')")
        connection.execute(
            "insert into app.audit_seals (sequence, audit_id, hash) select 1, max(audit_id), 'abc' from app.audit"
        )
    found = {one.check: one for one in _examined(database, ())}
    assert (found["callback secrets"].verdict, found["audit"].verdict) == ("wrong", "warning")
    assert found["callback secrets"].detail == "1 of them can be read in the database"
    assert "CAIRN_AUDIT_KEYS" in found["audit"].advice
    assert "whsec" not in str(found)


def test_platforms_with_shared_source_folders_are_reported(database: TestDatabase) -> None:
    with psycopg.connect(database.url(), autocommit=True) as connection:
        change = "update app.platforms set source_prefixes = %s where platform_id = %s returning 1"
        assert connection.execute(change, [["uploads/ddh/shared/"], "arcgis"]).fetchall()
        [found] = [one for one in _examined(database, ()) if one.check == "source folders"]
        assert found.verdict == "warning"
        assert "(arcgis and ddh: uploads/ddh/shared/)" in found.detail
        active = "update app.platforms set is_active = %s where platform_id = 'arcgis'"
        connection.execute(active, [False])
        without = verdicts(_examined(database, ()))["source folders"]
        connection.execute(active, [True])
        assert without == "ok"


def test_leftovers_older_than_a_day_are_reported(database: TestDatabase) -> None:
    made = """
        insert into app.requests (request_id, is_internal, operation, submitted, fingerprint, priority, status,
            finished_at, collecting_at, collected_at)
        select gen_random_uuid(), true, 'run', '{}', 'f', 'normal', 'failed', now() - interval '9 days',
               now() - make_interval(hours => begun), case when ended then now() end
        from (values (25, false), (1, false), (25, true)) told (begun, ended)
    """
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute(made)
    [found] = [one for one in _examined(database, ()) if one.check == "leftovers"]
    assert (found.verdict, found.detail) == ("warning", "those of 1 requests could not be removed for a day")


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ({}, None),  # nothing of a service is set up here
        ({"CAIRN_PUBLIC_URL": "https://a"}, "wrong"),
        ({"CAIRN_PUBLIC_URL": "https://a", "CAIRN_SECRETS_KEYS": "[]", "CAIRN_AUDIT_KEYS": ""}, "wrong"),
        ({"CAIRN_PUBLIC_URL": "https://a", "CAIRN_SECRETS_KEYS": '["k"]', "CAIRN_AUDIT_KEYS": '["k"]'}, "ok"),
        ({"CAIRN_PUBLIC_URL": "https://a", "CAIRN_DEVELOPMENT": "true"}, None),
    ],
)
def test_missing_keys_of_the_domain_are_reported(said: dict[str, str], verdict: str | None) -> None:
    assert [one.verdict for one in machine.keys(said)] == ([] if verdict is None else [verdict])


def _examined(of: TestDatabase, pools: Sequence[str]) -> list[Finding]:
    return database.examine(of.url(), pools)


def test_configured_database_is_checked_without_a_stack(
    alone: Path, database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAIRN_DATABASE_URL", database.url())
    found = {finding.check for finding in examination.examine(StackState(alone))}
    assert {"database", "schema", "clock"} <= found
    assert "postgresql" not in found  # its programs are not needed here


def test_unreachable_database_is_reported_without_its_password() -> None:
    [found] = database.examine("postgresql://somebody:hidden@127.0.0.1:9/cairn", ())
    assert found.verdict == "wrong"
    assert "hidden" not in str(found)


@pytest.mark.parametrize(("ahead", "verdict"), [(0.3, "ok"), (-5.0, "warning"), (60.0, "wrong")])
def test_verdict_on_the_clock_follows_its_difference(ahead: float, verdict: str) -> None:
    assert database.of_clock(ahead).verdict == verdict


def test_the_newest_migration_is_the_one_that_services_ask_for() -> None:
    assert database.newest() == ScriptDirectory(str(MIGRATIONS)).get_current_head()
    assert database.of_schema("9999", database.newest()).advice.startswith("Run the release")


def test_stack_with_an_external_database_is_checked_in_its_own_database() -> None:
    facts: dict[str, Any] = {"services": {}}
    assert examination.database_url(facts, "postgresql://a:b@db:5432/postgres") == "postgresql://a:b@db:5432/cairn"
    facts = {"services": {"postgres": {"url": "postgresql://its-own"}}}
    assert examination.database_url(facts, None) == "postgresql://its-own"
    assert examination.database_url(None, None) is None
