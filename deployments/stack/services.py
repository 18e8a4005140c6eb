"""Describes the embedded stack: each process, its environment, what it needs and how it shows readiness."""

import asyncio
import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from deployments.stack import health, storage
from deployments.stack.front_service import front_service
from deployments.stack.opening import LISTEN, Opening
from deployments.stack.owner import OWNER
from deployments.stack.ports import HOST, PREFERRED, PortClaims
from deployments.stack.postgres import ADMIN, LOGIN_ROLES, Cluster, as_user, find_cluster
from deployments.stack.prefect_events import EVENT_SETTINGS
from deployments.stack.state import REPOSITORY, StackState, read_json
from deployments.stack.supervisor import StackService
from flows.pools import POOLS, WorkPool
from flows.tries.fork_client import ADDRESS

PASSED_ON = ("PATH", "HOME", "LANG", "TZ")
OURS_ALONE = ("CAIRN_STATE", "CAIRN_DATABASE_URL", LISTEN, OWNER)


class RedisMissing(RuntimeError):
    """The server's program is not installed."""


@dataclass(frozen=True)
class Layout:
    """The addresses and secrets of one stack; everything else follows from them."""

    state: StackState
    ports: Mapping[str, int]
    external_database: str | None = None
    opening: Opening | None = None

    @property
    def workflows(self) -> Path:
        """Where the definitions are, for services whose current folder is another."""
        return Path(os.environ.get("CAIRN_WORKFLOWS_DIR") or REPOSITORY / "workflows").resolve()

    def url(self, service: str) -> str:
        return f"http://{HOST}:{self.ports[service]}"

    def public_url(self, service: str) -> str:
        """Where people and other hosts reach the service."""
        return self.opening.url(self.ports[service]) if self.opening else self.url(service)

    def admin_url(self, database: str | None = None) -> str:
        """The database server as its administrator."""
        if self.external_database:
            return _with_login(self.external_database, database=database)
        return self._postgres(ADMIN, self.state.secrets["postgres_admin"], database or "postgres")

    def role_url(self, role: str, secret: str, database: str = "cairn") -> str:
        """The database as one of our own roles."""
        if self.external_database:
            return _with_login(
                self.external_database, user=role, password=self.state.secrets[secret], database=database
            )
        return self._postgres(role, self.state.secrets[secret], database)

    def _postgres(self, user: str, password: str, database: str) -> str:
        return f"postgresql://{user}:{password}@{HOST}:{self.ports['postgres']}/{database}"

    @property
    def redis_url(self) -> str:
        return f"redis://:{self.state.secrets['redis']}@{HOST}:{self.ports['redis']}/0"

    @property
    def prefect_auth(self) -> str:
        return f"cairn:{self.state.secrets['prefect_auth']}"

    @property
    def prefect_api(self) -> str:
        return f"{self.url('prefect')}/api"


def plan_layout(state: StackState, claims: PortClaims) -> Layout:
    """Choose ports: those of the last start where they are still free, so that printed links stay good."""
    earlier = (read_json(state.stack_file) or {}).get("ports", {})
    external = os.environ.get("CAIRN_DATABASE_URL") or os.environ.get("DATABASE_URL")
    ports = {name: claims.claim(int(earlier.get(name, preferred))) for name, preferred in PREFERRED.items()}
    return Layout(state, ports, external, Opening.told(state))


def services(layout: Layout) -> list[StackService]:
    """Every process, in an order in which each one's needs come before it."""
    made = [_redis(layout), _databases(layout), _schema(layout), _prefect(layout), _deploy(layout)]
    if not layout.external_database:
        made.insert(0, _postgres(layout))
    made += [_domain(layout), _gateway(layout), _serving(layout)]
    if layout.opening:
        passed_on = storage.environment(layout.state)
        made.append(front_service(layout.opening, layout.ports, base_environment(layout), passed_on))
    return made + [_worker(layout, pool) for pool in POOLS.values()]


def base_environment(layout: Layout) -> dict[str, str]:
    """The little that every process gets from ours: nothing that could carry another installation's settings.

    Settings of ours (`CAIRN_…`) are passed on, so that a stack can be tuned; what the stack sets itself wins. Temporary
    files have a place of their own: Prefect's runners share one folder by name below the system's, and whoever came
    first owns it.
    """
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in PASSED_ON or (name.startswith("CAIRN_") and name not in OURS_ALONE)
    }
    passed["CAIRN_WORKFLOWS_DIR"] = str(layout.workflows)
    # A developer's machine: a database of theirs elsewhere need not speak TLS.
    return passed | {"CAIRN_DEVELOPMENT": "true", "PYTHONUNBUFFERED": "1", "TMPDIR": str(layout.state.temporary)}


def prefect_client_environment(layout: Layout) -> dict[str, str]:
    """How any process of ours reaches the private Prefect server, and nothing of the user's own profile."""
    return base_environment(layout) | {
        "PREFECT_HOME": str(layout.state.root / "prefect"),
        "PREFECT_API_URL": layout.prefect_api,
        "PREFECT_API_AUTH_STRING": layout.prefect_auth,
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_CLI_COLORS": "false",
        "PREFECT_LOGGING_COLORS": "false",
    }


def _python(*arguments: str) -> list[str]:
    return [*as_user(None), sys.executable, *arguments]


def _uvicorn(layout: Layout, name: str, factory: str) -> list[str]:
    return _python(
        "-m", "uvicorn", "--factory", factory, "--host", HOST, "--port", str(layout.ports[name]),
        "--no-access-log", "--timeout-graceful-shutdown", "3", "--no-server-header",
        "--http", "gateway.edge.http_protocol:InsideProtocol",
    )  # fmt: skip


def _postgres(layout: Layout) -> StackService:
    cluster = find_cluster(layout.state)
    cluster.initialise(layout.state.secrets["postgres_admin"])

    async def ready() -> bool:
        return await _pg_isready(cluster, layout.ports["postgres"])

    return StackService(
        "postgres",
        cluster.server_command(layout.ports["postgres"]),
        base_environment(layout),
        ready=ready,
        url=layout.admin_url("cairn"),
        stop_signal=signal.SIGINT,  # ends sessions and checkpoints; SIGTERM would wait for clients to leave
    )


async def _pg_isready(cluster: Cluster, port: int) -> bool:
    process = await asyncio.create_subprocess_exec(
        str(cluster.binaries / "pg_isready"), "-q", "-h", HOST, "-p", str(port)
    )
    return await process.wait() == 0


def _redis(layout: Layout) -> StackService:
    program = shutil.which("redis-server")
    if program is None:
        raise RedisMissing("redis-server is not installed. Run `make setup`, or install the package redis-server.")
    config = _redis_config(layout)

    async def ready() -> bool:
        return await health.redis_answers(layout.ports["redis"], layout.state.secrets["redis"])

    return StackService("redis", [*as_user(None), program, str(config)], base_environment(layout), ready=ready)


def _redis_config(layout: Layout) -> Path:
    """A private, diskless Redis. The password goes into a file: command lines are readable by everyone."""
    config = layout.state.root / "redis.conf"
    lines = [
        f"bind {HOST}",
        f"port {layout.ports['redis']}",
        f"requirepass {layout.state.secrets['redis']}",
        'save ""',
        "appendonly no",
        "maxmemory 256mb",
        "maxmemory-policy noeviction",
        f"dir {layout.state.root}",
    ]
    config.touch(mode=0o600)
    config.write_text("\n".join(lines) + "\n")
    return config


def _databases(layout: Layout) -> StackService:
    """Roles with their passwords, and the two databases."""
    secrets = layout.state.secrets
    environment = base_environment(layout) | {"CAIRN_ADMIN_URL": layout.admin_url()}
    for role, secret in LOGIN_ROLES.items():
        environment[f"CAIRN_PASSWORD_{role.upper()}"] = secrets[secret]
    needs = () if layout.external_database else ("postgres",)
    return StackService("databases", _python("-m", "deployments.stack.prepare", "databases"), environment, needs=needs)


def _schema(layout: Layout) -> StackService:
    """pgSTAC, migrations, development identities."""
    environment = base_environment(layout) | {
        "CAIRN_ADMIN_URL": layout.admin_url("cairn"),
        "CAIRN_STATE": str(layout.state.root),
    }
    return StackService(
        "schema", _python("-m", "deployments.stack.prepare", "schema"), environment, needs=("databases",)
    )


def _prefect(layout: Layout) -> StackService:
    database = layout.role_url("cairn_prefect", "role_prefect", "prefect")
    environment = prefect_client_environment(layout) | {
        "PREFECT_API_DATABASE_CONNECTION_URL": database.replace("postgresql://", "postgresql+asyncpg://", 1),
        "PREFECT_SERVER_API_AUTH_STRING": layout.prefect_auth,
        "PREFECT_SERVER_ENCRYPTION_KEY": layout.state.prefect_encryption_key,
        # No page of another origin may read the API. Its login is a header that no browser adds by itself, so forged
        # requests carry none, and tokens against forgery (one more call of every client) would guard nothing.
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": layout.public_url("prefect"),
        **EVENT_SETTINGS,
        "PREFECT_REDIS_MESSAGING_URL": layout.redis_url,
        "PREFECT_SERVER_DOCKET_URL": layout.redis_url,
        "PREFECT_UI_ENABLED": "true",
        "PREFECT_UI_API_URL": f"{layout.public_url('prefect')}/api",
    }

    async def ready() -> bool:
        return await health.http_ok(f"{layout.prefect_api}/health", basic=layout.prefect_auth)

    command = _python("-m", "prefect", "server", "start", "--host", HOST, "--port", str(layout.ports["prefect"]))
    return StackService(
        "prefect", command, environment, needs=("databases", "redis"), ready=ready, url=layout.url("prefect")
    )


def _deploy(layout: Layout) -> StackService:
    """Work pools and one deployment per workflow. Nothing runs yet, so a pool of another type may be replaced."""
    zones = storage.settings_of(layout.state)
    block = ("--storage-root", str(zones.storage_root)) if zones.storage_root else ()
    command = _python("-m", "deployments.cli", "deploy", "--replace-pools", "--spare-faulty", *block)
    # Workers have limits of their own. Stacks of earlier releases had one on the pool, which more machines would share.
    limits = ",".join(f"{name}=none" for name in POOLS)
    environment = {"CAIRN_POOL_LIMITS": limits} | prefect_client_environment(layout)
    return StackService("deploy", command, environment, needs=("prefect",))


def _domain(layout: Layout) -> StackService:
    environment = prefect_client_environment(layout) | {
        "FORWARDED_ALLOW_IPS": HOST,  # the gateway, which says where people at the console come from
        "CAIRN_DATABASE_URL": layout.role_url("cairn_app", "role_app"),
        "CAIRN_PUBLIC_URL": layout.public_url("gateway"),
        **storage.environment(layout.state),
        "CAIRN_PREFECT_UI_URL": layout.public_url("prefect"),
        "CAIRN_ADMIN_URL": layout.admin_url("cairn"),  # migrations and rebuilds by API, in development only
        "CAIRN_CALLBACK_NETWORKS": '["127.0.0.0/8"]',  # receivers of callbacks run beside the stack
        "CAIRN_SECRETS_KEYS": json.dumps([layout.state.sealing_key]),
        "CAIRN_AUDIT_KEYS": json.dumps([layout.state.secrets["audit"]]),
    }
    command = _uvicorn(layout, "domain", "domain.app:create_app")
    return _web_service(layout, "domain", command, environment, needs=("schema",))


def _gateway(layout: Layout) -> StackService:
    environment = base_environment(layout) | {
        "FORWARDED_ALLOW_IPS": os.environ.get("FORWARDED_ALLOW_IPS", HOST),  # a proxy that a developer puts before it
        "CAIRN_DATABASE_GATEWAY_URL": layout.role_url("cairn_gateway", "role_gateway"),
        "CAIRN_DOMAIN_URL": layout.url("domain"),
        "CAIRN_SERVING_URL": layout.url("serving"),
        "CAIRN_SERVICE_TOKEN": layout.state.secrets["gateway"],
        **_named_publicly(layout),
    }
    command = _python("-m", "gateway", "--host", HOST, "--port", str(layout.ports["gateway"]))
    return _web_service(layout, "gateway", command, environment, needs=("schema",))


def _serving(layout: Layout) -> StackService:
    environment = base_environment(layout) | {
        "FORWARDED_ALLOW_IPS": HOST,
        "CAIRN_DATABASE_SERVING_URL": layout.role_url("cairn_serving", "role_serving"),
        **_named_publicly(layout),
        **storage.environment(layout.state),
    }
    command = _uvicorn(layout, "serving", "gateway.serving.app:create_app")
    return _web_service(layout, "serving", command, environment, needs=("schema",))


def _named_publicly(layout: Layout) -> dict[str, str]:
    """What links begin with where others read them; on loopback they begin as whoever asks has called."""
    return {"CAIRN_PUBLIC_URL": layout.public_url("gateway")} if layout.opening else {}


def _web_service(
    layout: Layout, name: str, command: list[str], environment: dict[str, str], needs: tuple[str, ...]
) -> StackService:
    async def ready() -> bool:
        return await health.http_ok(f"{layout.url(name)}/readyz")

    return StackService(name, command, environment, needs=needs, ready=ready, url=layout.url(name))


def zygote_name(state: StackState, pool: str) -> str:
    """The abstract socket of one stack's zygote."""
    return f"cairn-zygote-{hashlib.sha256(str(state.root).encode()).hexdigest()[:16]}-{pool}"


def _worker(layout: Layout, pool: WorkPool) -> StackService:
    environment = prefect_client_environment(layout) | {
        "CAIRN_DOMAIN_URL": layout.url("domain"),
        "CAIRN_WORKER_TOKEN": layout.state.secrets["worker"],
        **storage.environment(layout.state),
        ADDRESS: zygote_name(layout.state, pool.name),
    }
    if pool.is_told_database:  # where GDAL opens senders' files there is no credential to steal
        environment["CAIRN_DATABASE_LOADER_URL"] = layout.role_url("cairn_loader", "role_loader")

    async def ready() -> bool:
        return await health.worker_online(layout.prefect_api, pool.name, basic=layout.prefect_auth)

    command = _python("-m", "deployments.cli", "worker", "start", "--pool", pool.name, "--name", f"{pool.name}-1")
    return StackService(pool.worker, command, environment, needs=("deploy", "schema"), ready=ready)


def _with_login(url: str, *, user: str | None = None, password: str | None = None, database: str | None = None) -> str:
    """Return the server's address with another user, password or database."""
    parts = urlsplit(url)
    netloc = parts.netloc
    if user and password:
        netloc = f"{quote(user)}:{quote(password)}@{netloc.rpartition('@')[2]}"
    return urlunsplit(parts._replace(netloc=netloc, path=f"/{database}" if database else parts.path))
