"""Brings a database to the schema that this code was written for. Run by an administrator, never by the service."""

from pathlib import Path

SCRIPTS = Path(__file__).parent


def upgrade(admin_url: str, revision: str = "head") -> None:
    """Install pgSTAC where it is missing, then run our migrations."""
    _install_pgstac(admin_url)
    _alembic("upgrade", admin_url, revision)


def downgrade(admin_url: str, revision: str) -> None:
    """Undo migrations down to, and not including, the revision."""
    _alembic("downgrade", admin_url, revision)


def wipe(admin_url: str) -> None:
    """Drop all of ours with all that is in it. For development: nothing of it comes back."""
    import psycopg

    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute("drop schema if exists app, api, geo cascade")


def _alembic(verb: str, admin_url: str, revision: str) -> None:
    from alembic import command
    from alembic.config import Config

    from domain.settings import sqlalchemy_url

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.attributes["url"] = sqlalchemy_url(admin_url)
    getattr(command, verb)(config, revision)


def _install_pgstac(admin_url: str) -> None:
    import psycopg
    from psycopg_pool import ConnectionPool
    from pypgstac.db import PgstacDB
    from pypgstac.migrate import Migrate

    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute("create extension if not exists postgis")
    # The library opens a pool of its own and forgets it: sessions would stay in the database.
    with ConnectionPool(admin_url, min_size=1, max_size=1) as pool, PgstacDB(pool=pool) as database:
        Migrate(database).run_migration()
