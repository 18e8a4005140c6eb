"""Databases as a first start leaves them, a stack's and a Prefect server's: made once and copied.

`tests/e2e/test_stack.py` starts from nothing, as a user does.
"""

import os
import subprocess
from pathlib import Path

import psycopg

from deployments.stack.postgres import find_binaries, find_cluster
from deployments.stack.state import StackState
from tests.support.cluster import SWIFT, TEMPLATE, TestCluster, TestDatabase, copy_state, made_cluster, server_in
from tests.support.made_once import made_once
from tests.support.warm import Place, forked, module

OWNER = "cairn_prefect"
MIGRATE = ("prefect", "server", "database", "upgrade", "--yes")
TABLES = "tables.sql"
BARE = ("--no-owner", "--no-privileges")


def give_databases(folder: Path) -> None:
    """Fill the state folder of a stack that was never started."""
    copy_state(made_once("stack", _make_stack), folder)


def give_prefects_tables(database: TestDatabase, role: str = OWNER) -> None:
    """Fill an empty database with what Prefect's migrations make."""
    told = made_once("prefect", _make_prefect) / TABLES
    _run("psql", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={told}", f"--dbname={database.url(role)}")


def _make_stack(folder: Path) -> None:
    copy_state(made_cluster(), folder)
    server = server_in(folder)
    try:
        server.start()
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"alter database {TEMPLATE} rename to cairn".encode())
            connection.execute(f"create database prefect owner {OWNER}".encode())
        give_prefects_tables(TestDatabase(TestCluster(server.url, server), "prefect"))
    finally:
        server.stop()
    settings = find_cluster(StackState(folder)).data / "postgresql.auto.conf"
    with settings.open("a") as file:
        file.writelines(f"{setting}\n" for setting in SWIFT if setting != "-c")


def _make_prefect(folder: Path) -> None:
    cluster = folder / "cluster"
    copy_state(made_cluster(), cluster)
    server = server_in(cluster)
    try:
        server.start()
        with TestCluster(server.url, server).database("template0") as database:
            _migrate(database.url(), folder)
            _run("pg_dump", *BARE, f"--file={folder / TABLES}", database.url())
    finally:
        server.stop()


def _migrate(url: str, folder: Path) -> None:
    """Have Prefect bring its database to its schema."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PREFECT_HOME": str(folder / "home"),
        "PREFECT_API_DATABASE_CONNECTION_URL": url.replace("postgresql://", "postgresql+asyncpg://", 1),
    }
    log = folder / "migration.log"
    assert forked(Place(folder, environment, log, log), module, *MIGRATE).wait(300) == 0, log.read_text()


def _run(program: str, *arguments: str) -> None:
    done = subprocess.run([find_binaries() / program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
