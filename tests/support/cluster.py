"""A scratch PostgreSQL for tests: one private cluster a session, one template with every migration, copies of it."""

import base64
import contextlib
import hashlib
import hmac
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from deployments.stack.ports import any_port
from deployments.stack.postgres import ADMIN, LOGIN_ROLES, find_cluster
from deployments.stack.state import StackState
from domain.migrations import upgrade
from tests.support.asking import ask, forget
from tests.support.made_once import made_once

TEMPLATE = "template_cairn"
PASSWORD = "test"
START_SECONDS = 120.0
# No test takes the machine's power away: what a crash of the server leaves is the kernel's to keep.
SWIFT = ("-c", "fsync=off", "-c", "full_page_writes=off")
# What migrations say of the database itself: a copy takes over what is in it, and not who may do what with it.
RIGHTS = (
    "revoke temporary on database {} from public",
    "grant temporary on database {} to pgstac_admin, pgstac_ingest",
)
# Everything but what migrations put in and what services publish at their start. No trigger and no key is asked.
EMPTY = """
do $$ declare named text; begin
    perform set_config('session_replication_role', 'replica', true);
    for named in select tablename from pg_tables where schemaname = 'app'
        and tablename not in ('alembic_version', 'workflow_definitions', 'platforms', 'processes')
    loop execute format('delete from app.%I', named); end loop;
    delete from app.platforms where platform_id not in ('ddh', 'arcgis', 'geonode', 'internal');
    update app.platforms set approvals_required = 1, approval_days = null, share = 1, priority_cap = 'normal',
        source_prefixes = array['uploads/' || platform_id || '/'] where platform_id <> 'internal';
    for named in select table_name from geo.layers loop execute format('drop table if exists geo.%I', named); end loop;
    delete from geo.loaded_chunks; delete from geo.layers;
    delete from pgstac.items; delete from pgstac.collections;
    for named in select format('app.%I', relname) from pg_class
        where relkind = 'S' and relnamespace = 'app'::regnamespace
    loop execute format('alter sequence %s restart', named); end loop;
end $$
"""


@dataclass(frozen=True)
class TestDatabase:
    """One database of the cluster, by role."""

    __test__ = False  # the name is not pytest's

    cluster: "TestCluster"
    name: str

    def url(self, role: str = ADMIN) -> str:
        parts = urlsplit(self.cluster.admin_url)
        password = PASSWORD if role != ADMIN else parts.password
        return urlunsplit(parts._replace(netloc=f"{role}:{password}@127.0.0.1:{parts.port}", path=f"/{self.name}"))


@dataclass
class TestServer:
    """The server's process: started, stopped, and broken."""

    __test__ = False

    command: Sequence[str]
    log: Path
    url: str
    popen: "subprocess.Popen[bytes]" = field(init=False)

    def start(self) -> None:
        """Start, and wait until it lets somebody in."""
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(self.command, cwd="/", stdout=log, stderr=log, start_new_session=True)
        _wait_until_ready(self.url, self.popen)

    def crash(self) -> None:
        """What `pg_ctl stop -m immediate` does: no session ends in order, the next start recovers from the log."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        self._end(signal.SIGINT)  # a fast shutdown: sessions that tests forgot are ended

    def freeze(self) -> None:
        """Stop every process of it where it is: connections stay open, and nobody answers."""
        self._signal(signal.SIGSTOP)

    def freeze_sessions(self) -> None:
        """Stop the processes of those who are connected, with the locks that they hold. Others may still connect."""
        forget(self.url.rpartition("/")[0])
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(
                "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
            ).fetchall()
        for (pid,) in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, how: signal.Signals) -> None:
        """To the first process first: it must not have more children while they are told."""
        found = [self.popen.pid]
        for parent in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(parent, how)
            for children in Path(f"/proc/{parent}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    found += map(int, children.read_text().split())

    def _end(self, how: signal.Signals) -> None:
        forget(self.url.rpartition("/")[0])
        self.popen.send_signal(how)
        self.popen.wait(120)


@dataclass
class TestCluster:
    """A running cluster, and copies of the migrated template."""

    __test__ = False

    admin_url: str
    server: TestServer
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _keep: ExitStack = field(default_factory=ExitStack)
    _shared: TestDatabase | None = None

    def prepare(self) -> None:
        """The roles, and the template that test databases are copied from: migrating takes a second, copying less."""
        with psycopg.connect(self.admin_url, autocommit=True) as connection:
            for role in LOGIN_ROLES:
                name, secret = sql.Identifier(role), sql.Literal(quick_secret(PASSWORD))
                connection.execute(sql.SQL("create role {} login password {}").format(name, secret))
            own = sql.Literal(quick_secret(urlsplit(self.admin_url).password or ""))
            connection.execute(sql.SQL("alter role {} password {}").format(sql.Identifier(ADMIN), own))
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(TEMPLATE)))
        upgrade(TestDatabase(self, TEMPLATE).url())

    @contextmanager
    def shared(self) -> Iterator[TestDatabase]:
        """The copy that tests take in turns, as a fresh one would be: emptying costs a tenth of copying."""
        if self._shared is None:
            self._shared = self._keep.enter_context(self.database())
        try:
            yield self._shared
        finally:
            self.empty(self._shared)

    def empty(self, database: TestDatabase) -> None:
        """Take out what tests put in."""
        ask(database.url(), EMPTY)

    def close(self) -> None:
        self._keep.close()

    @contextmanager
    def database(self, template: str = TEMPLATE) -> Iterator[TestDatabase]:
        """A fresh copy: real commits, no leaks between tests."""
        name = f"test_{next(self._numbers)}"
        copy = sql.SQL("create database {} template {}")
        rights = [sql.SQL(right).format(sql.Identifier(name)) for right in RIGHTS] if template == TEMPLATE else []
        self._order(copy.format(sql.Identifier(name), sql.Identifier(template)), *rights)
        try:
            yield TestDatabase(self, name)
        finally:
            forget(TestDatabase(self, name).url())
            self._order(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    def _order(self, *commands: sql.Composed) -> None:
        """On a connection of its own: the server may have been restarted since the last one."""
        with psycopg.connect(self.admin_url, autocommit=True) as connection:
            for command in commands:
                connection.execute(command)


def quick_secret(password: str) -> str:
    """What PostgreSQL keeps of a password, salted once and not 4,096 times: tests log in thousands of times."""
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1)
    client, server = (hmac.digest(salted, key, "sha256") for key in (b"Client Key", b"Server Key"))
    told = [base64.b64encode(part).decode() for part in (salt, hashlib.sha256(client).digest(), server)]
    return "SCRAM-SHA-256$1:{}${}:{}".format(*told)


@contextmanager
def open_folder(name: str) -> Iterator[Path]:
    """A temporary folder that the cluster's own user can pass through, gone afterwards.

    Not below pytest's: every pytest that starts closes that folder to other users, under the feet of those that run.
    """
    with tempfile.TemporaryDirectory(prefix=f"cairn-{name}-", ignore_cleanup_errors=True) as folder:
        path = Path(folder).resolve()
        path.chmod(0o711)
        yield path


@contextmanager
def running_cluster() -> Iterator[TestCluster]:
    """A cluster of its own, on a free port, gone afterwards. It keeps what it acknowledged when it is killed."""
    with open_folder("cluster") as folder:
        copy_state(made_cluster(), folder)
        server = server_in(folder)
        try:
            server.start()
            ready = TestCluster(server.url, server)
            with contextlib.closing(ready):
                yield ready
        finally:
            server.stop()


def server_in(folder: Path) -> TestServer:
    """The server of the cluster that this state folder holds, on a free port, not yet started."""
    state, port = StackState(folder), any_port()
    url = f"postgresql://{ADMIN}:{state.secrets['postgres_admin']}@127.0.0.1:{port}/postgres"
    return TestServer([*find_cluster(state).server_command(port), *SWIFT], state.log("postgres"), url)


def copy_state(source: Path, target: Path) -> None:
    """Have this state folder hold the cluster that another holds, stopped, with the passwords that go with it."""
    ours = StackState(target)
    ours.create()
    shutil.copy(source / "secrets.json", target)
    subprocess.run(["cp", "-a", find_cluster(StackState(source)).data, find_cluster(ours).data], check=True)


def made_cluster() -> Path:
    """The state folder of a stopped cluster with the roles and the template: making both takes seconds."""
    return made_once("cluster", _make_cluster)


def _make_cluster(folder: Path) -> None:
    state = StackState(folder)
    state.create()
    find_cluster(state).initialise(state.secrets["postgres_admin"])
    server = server_in(folder)
    try:
        server.start()
        TestCluster(server.url, server).prepare()
    finally:
        server.stop()


def _wait_until_ready(url: str, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url):
            return
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("The test cluster did not start.")
        time.sleep(0.05)
