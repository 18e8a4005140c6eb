"""Makes the databases ready: roles, schemas, pgSTAC, development identities. Safe to run at every start."""

import hashlib
import os
import sys
from collections.abc import Sequence

import psycopg
from psycopg import sql

from deployments.stack.postgres import LOGIN_ROLES
from deployments.stack.state import StackState, write_private_json

# Who may connect to which database. What they may do there is for the migrations to say.
DATABASES = {"cairn": ("cairn_app", "cairn_gateway", "cairn_serving", "cairn_loader"), "prefect": ("cairn_prefect",)}
FIRST_CLIENTS = {
    "gateway": "CAIRN_SERVICE_TOKEN",
    "worker": "CAIRN_WORKER_TOKEN",
    "admin": "CAIRN_FIRST_ADMIN_KEY",
}
SHORTEST_SECRET = 32
PARTNERS = ("ddh", "arcgis", "geonode")


def databases(admin_url: str) -> None:
    """The roles with today's passwords, and both databases."""
    with psycopg.connect(admin_url, autocommit=True) as connection:
        for role in LOGIN_ROLES:
            _ensure_role(connection, role, os.environ[f"CAIRN_PASSWORD_{role.upper()}"])
        for database, users in DATABASES.items():
            _ensure_database(connection, database, users)


def _ensure_role(connection: psycopg.Connection, role: str, password: str) -> None:
    if not connection.execute("select 1 from pg_roles where rolname = %s", [role]).fetchone():
        connection.execute(sql.SQL("create role {}").format(sql.Identifier(role)))
    command = sql.SQL("alter role {} login password {}").format(sql.Identifier(role), sql.Literal(password))
    connection.execute(command)


def _ensure_database(connection: psycopg.Connection, database: str, users: Sequence[str]) -> None:
    name = sql.Identifier(database)
    if not connection.execute("select 1 from pg_database where datname = %s", [database]).fetchone():
        connection.execute(sql.SQL("create database {}").format(name))
    connection.execute(sql.SQL("revoke connect on database {} from public").format(name))
    for user in users:
        connection.execute(sql.SQL("grant connect on database {} to {}").format(name, sql.Identifier(user)))
    if database == "prefect":  # Prefect migrates its own database; ours is migrated by its administrator
        connection.execute(sql.SQL("alter database {} owner to {}").format(name, sql.Identifier(users[0])))


def schema(admin_url: str, state: StackState) -> None:
    """pgSTAC, our migrations, and one credential for everyone who works with a development stack."""
    from domain.migrations import upgrade

    upgrade(admin_url)
    with psycopg.connect(admin_url) as connection:
        for client_id, role, platform_id, secret in identities(state):
            connection.execute(
                """insert into app.clients (client_id, role, platform_id, display_name, secret_hash)
                   values (%s, %s, %s, %s, %s)
                   on conflict (client_id) do update set secret_hash = excluded.secret_hash""",
                [client_id, role, platform_id, f"Development {client_id}", hashlib.sha256(secret.encode()).hexdigest()],
            )
        _give_callback_secrets(connection, state)
    write_private_json(state.credentials_file, credentials(state))


def first_clients(admin_url: str) -> None:
    """Create the clients that a deployment begins with: gateway, workers, and one administrator.

    Tokens of services are what the environment says, at each start; the administrator's key is set once.
    """
    with psycopg.connect(admin_url) as connection:
        for role, variable in FIRST_CLIENTS.items():
            secret = os.environ.get(variable, "")
            if len(secret) < SHORTEST_SECRET:
                sys.exit(f"Set {variable} to {SHORTEST_SECRET} random characters or more.")
            connection.execute(
                """insert into app.clients (client_id, role, display_name, secret_hash) values (%s, %s, %s, %s)
                   on conflict (client_id) do update set secret_hash = excluded.secret_hash
                   where excluded.role <> 'admin'""",
                [role, role, f"First {role}", hashlib.sha256(secret.encode()).hexdigest()],
            )


def _give_callback_secrets(connection: psycopg.Connection, state: StackState) -> None:
    """Each partner's development client can verify callbacks from the start; a rotation is left alone."""
    from domain.adapters.sealing import Vault

    vault = Vault([state.sealing_key])
    for name in PARTNERS:
        connection.execute(
            """insert into app.callback_secrets (client_id, sealed) select %s, %s
               where not exists (select from app.callback_secrets where client_id = %s)""",
            [f"{name}-dev", vault.seal(state.callback_secret(name)), f"{name}-dev"],
        )


def identities(state: StackState) -> list[tuple[str, str, str | None, str]]:
    """(client id, role, platform, secret) of every development identity."""
    secrets = state.secrets
    partners: list[tuple[str, str, str | None, str]] = [
        (f"{name}-dev", "partner", name, secrets[f"client_{name}"]) for name in PARTNERS
    ]
    others = [(name, name, None, secrets[name]) for name in ("reviewer", "operator", "admin", "worker", "gateway")]
    return partners + others


def credentials(state: StackState) -> dict[str, object]:
    """What a developer needs to talk to the stack as each of its users."""
    secrets = state.secrets
    people = {
        name: {"username": name, "password": secrets[name], "token": secrets[name]}
        for name in ("reviewer", "operator", "admin")
    }
    return {
        "clients": {
            name: {
                "client_id": f"{name}-dev",
                "api_key": secrets[f"client_{name}"],
                "callback_secret": state.callback_secret(name),
            }
            for name in PARTNERS
        },
        **people,
        "worker": {"token": secrets["worker"]},
        "prefect": {"auth_string": f"cairn:{secrets['prefect_auth']}"},
    }


def main() -> None:
    """`databases`, `schema` or `clients`, told by the first argument."""
    admin_url = os.environ["CAIRN_ADMIN_URL"]
    if sys.argv[1] == "databases":
        databases(admin_url)
    elif sys.argv[1] == "clients":
        first_clients(admin_url)
    else:
        schema(admin_url, StackState.default())


if __name__ == "__main__":
    main()
