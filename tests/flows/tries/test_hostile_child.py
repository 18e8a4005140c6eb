"""The hostile child: a GDAL try that was taken over makes every attempt there is to get out. None succeeds.

It is shown on the kernel as it is and with its Landlock taken for an older one, with zones in a folder and in an
account; and for each class of attempts with a part of the confinement switched off, where the same attempts must be
seen to succeed.
"""

import io
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from deployments.stack.owner import tied
from deployments.workers import confining
from flows.handlers.errors import ForeignProduct, HandlerError
from flows.storage import LocalStore, Zones
from flows.storage.readers import FileReader
from flows.tries import confinement, one_try, storage_broker
from flows.tries.confinement import AT_MOST, landlock_version
from flows.tries.file_from_try import Bounds
from flows.tries.fork_client import ADDRESS
from tests.support.hostile_child import handler
from tests.support.hostile_child.attempts import ATTEMPTS, BROKEN, ESCAPED, REFUSED, Aims
from tests.support.hostile_child.world import PRODUCT, Outcome, World, filled, told
from tests.support.run_facts import HOME
from tests.support.zygotes import Zygote

THREADS, FILE_MB = 24, 64
OURS = "from tests.support.hostile_child import handler; handler.declare()"
COLD = f"{OURS}; from flows.tries.process_child import main; main()"

# What a machine may refuse to anybody: no such part in its kernel, or a container around the tests.
PERHAPS_NOT_HERE = {
    "keep root's rights", "read the kernel's log", "mount", "chroot", "a device", "watch every file of the disk",
    "read all packets", "talk to the machine below", "a socket of the kernel's ciphers", "secret memory", "bpf",
    "perf_event_open", "userfaultfd", "io_uring", "read it by its handle", "attach words to a source",
    "attach words to it", "set its attributes", "keep others from writing it",
    "say what happens to cores", "add a key", "join the session's keys", "compare two processes",
    "a process in namespaces of its own", "raise a limit again", "read the accounts",
}  # fmt: skip

# How a file is opened for a try refuses these, and that a line is a stream of two ends.
READ_ONLY = {"write it", "map it for writing", "cut it off"}
CONNECTED = {"write from its line to somebody else", "call somebody else on its line"}


@pytest.fixture(scope="module")
def warm() -> Iterator[Zygote]:
    running = Zygote("tests.support.hostile_child.handler")
    handler.declare()
    yield running
    handler.forget()
    running.end()


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[tuple[str, str, int]]:
    """Sockets of somebody else's: abstract and as a file, and a port."""
    name, path = f"cairn-test-{os.urandom(8).hex()}", tmp_path / "elsewhere" / "socket"
    path.parent.mkdir()
    sockets = [
        socket.socket(socket.AF_UNIX),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
        socket.socket(socket.AF_INET),
    ]
    addresses: list[Any] = [f"\0{name}", f"\0{name}-d", str(path), ("127.0.0.1", 0)]
    for one, address in zip(sockets, addresses, strict=True):
        one.bind(address)
        if one.type == socket.SOCK_STREAM:
            one.listen()
    yield name, str(path), sockets[3].getsockname()[1]
    for one in sockets:
        one.close()


@pytest.fixture
def victim() -> Iterator[int]:
    """Another process of ours."""
    with subprocess.Popen(tied("sleep", "600"), start_new_session=True) as sleeper:
        yield sleeper.pid
        assert sleeper.poll() is None
        sleeper.kill()


@pytest.fixture
def zones(request: pytest.FixtureRequest, tmp_path: Path) -> Zones:
    """In a folder, or in an account where a test asks for it."""
    if getattr(request, "param", "folder") == "folder":
        return Zones.local(tmp_path / "zones")
    made: Zones = request.getfixturevalue("azurite").zones(f"x{uuid4().hex[:12]}-")
    return made


IN_ACCOUNT_TOO = pytest.mark.parametrize("zones", ["folder", "account"], indirect=True)


@pytest.fixture
def world(
    zones: Zones,
    tmp_path: Path,
    warm: Zygote,
    victim: int,
    listeners: tuple[str, str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    """A confined try's surroundings. What is another's is as it was, whatever the try has done."""
    name, path, port = listeners
    for variable, value in (("THREADS", THREADS), ("FILE_MB", FILE_MB), ("OPEN_FILES", 128), ("MEMORY_MB", 4096)):
        monkeypatch.setenv(f"CAIRN_TRY_{variable}", str(value))
    monkeypatch.setenv("CAIRN_TRY_CONFINEMENT", "required")
    monkeypatch.setenv(ADDRESS, warm.name)
    secret = tmp_path / "elsewhere" / "secret"
    secret.write_text("a secret")
    secret.chmod(0o600)
    storage = filled(zones, tmp_path / "zones")
    aims = Aims(
        secret=str(secret), another=str(storage.another), product=str(storage.product),
        planted=str(tmp_path / "elsewhere/planted"), source=str(storage.source), victim=victim,
        flow=os.getpid(), zygote=warm.name, stream=name, datagram=f"{name}-d", path=path, port=port, threads=THREADS,
        beyond_file_mb=FILE_MB + 1, beyond_memory_mb=4096 + 1,
    )  # fmt: skip
    made = World(storage, aims)
    yield made
    assert secret.read_text() == "a secret"
    assert made.unharmed()
    assert warm.lives()


def check(world: World, outcome: Outcome) -> None:
    assert outcome.keys() == ATTEMPTS.keys()
    assert told(outcome, BROKEN) == []
    assert told(outcome, ESCAPED) == []
    assert len(told(outcome, REFUSED)) == sum(map(len, outcome.values()))


def test_escape_attempts_of_every_kind_are_listed() -> None:
    assert len(ATTEMPTS) == 16
    assert sum(map(len, ATTEMPTS.values())) >= 100


@pytest.mark.parametrize(
    ("zones", "at_most"),
    [*(("folder", age) for age in (99, 5, 3, 1)), ("account", 99), ("account", 1)],
    indirect=["zones"],
)
def test_no_escape_attempt_succeeds_where_confinement_is_required(
    world: World, at_most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AT_MOST, str(at_most))
    outcome = world.attack()
    print(f"\nLandlock {landlock_version()}: {len(told(outcome, REFUSED))} refused, {len(told(outcome, ESCAPED))} out")  # noqa: T201
    check(world, outcome)
    assert not Path(world.aims.planted).exists()


@IN_ACCOUNT_TOO
def test_no_escape_attempt_succeeds_in_a_fresh_interpreter(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.Popen
    monkeypatch.delenv(ADDRESS)
    monkeypatch.setattr(
        subprocess,
        "Popen",
        lambda command, **options: real(
            [command[0], "-c", COLD] if command[1:] == ["-m", "flows.tries.process_child"] else command, **options
        ),
    )
    check(world, world.attack())


@pytest.mark.parametrize("at_most", ["0", "none"])
def test_no_try_and_no_worker_starts_where_required_confinement_is_missing(
    world: World, at_most: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AT_MOST, at_most)
    with pytest.raises(HandlerError, match=r"cannot confine GDAL tries: its kernel has no Landlock"):
        world.attack()
    with pytest.raises(confining.CannotConfine, match=r"no Landlock.* this worker does not start"):
        confining.look()


def test_assumed_landlock_version_is_never_above_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(AT_MOST, raising=False)
    kernels = landlock_version()
    monkeypatch.setenv(AT_MOST, str(kernels + 5))
    assert landlock_version() == kernels >= 1
    monkeypatch.setenv(AT_MOST, "1")
    assert landlock_version() == 1


# Which part of the confinement is missing, on a kernel of which age, and the classes of attempts that find it.
HOLES = {
    "no Landlock": (["landlock"], 99, ["files", "/proc", "zones"]),
    "no filter of calls": (["seccomp"], 2, ["calls on files", "blobs", "sockets", "signals", "processes", "calls"]),
    "neither": (["landlock", "seccomp"], 99, ["links", "tracing"]),
    "nobody counts threads": (["threads"], 99, ["threads"]),
    "no limits": (["limits"], 99, ["limits"]),
}


@pytest.mark.parametrize(("without", "at_most", "kinds"), HOLES.values(), ids=HOLES)
def test_escape_through_a_missing_confinement_part_is_found(
    world: World, without: list[str], at_most: int, kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AT_MOST, str(at_most))
    outcome = world.attack(kinds, without)
    assert outcome.keys() == set(kinds)
    for kind, names in outcome.items():
        assert told({kind: names}, ESCAPED), names
    world.mend()


@pytest.fixture
def heedless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one attempt has changed a source, those after it are handed it all the same."""
    monkeypatch.setattr(FileReader, "_version_now", lambda _: "the same")


@pytest.mark.usefixtures("heedless")
def test_every_escape_attempt_succeeds_without_confinement(world: World) -> None:
    """Or this machine refuses it to everybody. What the flow's process judges, it judges here too."""
    judged = {"descriptors", "names", "orders"}
    outcome = world.attack(sorted(ATTEMPTS.keys() - judged), ["landlock", "seccomp", "threads", "limits"])
    assert told(outcome, BROKEN) == []
    refused = {name for names in outcome.values() for name, what in names.items() if what.startswith(REFUSED)}
    assert refused <= PERHAPS_NOT_HERE | READ_ONLY | CONNECTED, told(outcome, REFUSED)
    assert len(told(outcome, ESCAPED)) >= 60


def test_zygote_refuses_orders_of_a_try(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AT_MOST, "3")
    assert told(world.attack(["orders"], ["seccomp"]), REFUSED) == [
        f"orders: {name}: refused: EPERM" for name in ATTEMPTS["orders"]
    ]


TRUSTING = """
from deployments.warm import zygote
zygote.Zygote._judge = lambda *_: None
zygote.BECOMES = {kind: lambda order: 0 for kind in zygote.BECOMES}
zygote._keep_streams_only = lambda streams: {}
zygote.PRELOADED = ()
zygote.code_version = lambda: "the same"
zygote.main()
"""


def test_a_zygote_that_trusts_everybody_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It forks for a try; the forks end at once here."""
    monkeypatch.setenv(AT_MOST, "3")
    name = f"{world.aims.zygote}-trusting"
    environment = {ADDRESS: name, "PATH": os.environ["PATH"]}
    with subprocess.Popen(tied(sys.executable, "-c", TRUSTING), env=environment) as trusting:
        with socket.socket(socket.AF_UNIX) as line:
            while line.connect_ex(f"\0{name}"):
                assert trusting.poll() is None
        world.aims = replace(world.aims, zygote=name)
        assert len(told(world.attack(["orders"], ["seccomp"]), ESCAPED)) == 2
        trusting.kill()


class Reopened(io.FileIO):
    """A file as the broker once took it: by a name, with rights of its own."""

    def __init__(self, file: int, _: Bounds) -> None:
        super().__init__(f"/proc/self/fd/{file}")
        self.size = os.fstat(self.fileno()).st_size

    def __del__(self) -> None:
        self.close()


def test_a_broker_that_trusts_descriptors_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_broker, "HandedFile", Reopened)
    for name in ("another's file, named only", "the own environment"):
        assert told(world.attack(["descriptors"], only=name), ESCAPED)


@IN_ACCOUNT_TOO
def test_a_broker_that_grants_everything_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_broker.Grants, "allow", lambda *_: True)
    outcome = world.attack(["names"])
    assert len(told(outcome, ESCAPED)) >= 5
    world.mend()


@pytest.mark.usefixtures("heedless")
def test_a_broker_that_opens_blobs_for_writing_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalStore, "reader", lambda store, name: FileReader(os.open(store._path(name), os.O_RDWR)))
    outcome = world.attack(["blobs"])
    assert {name for name, what in outcome["blobs"].items() if what.startswith(ESCAPED)} == READ_ONLY
    world.mend()


ARTIFACT = {
    "role": "cog", "zone": "silver", "name": f"{HOME}/a1/cog.tif", "media_type": "image/tiff", "sha256": "0" * 64,
    "size_bytes": 1,
}  # fmt: skip
HONEST: dict[str, Any] = {"source": "in/a.tif", "product": f"{HOME}/a1/cog.tif", "artifacts": [ARTIFACT]}
CLAIMS: dict[str, dict[str, Any]] = {
    "another's product": {"product": PRODUCT},
    "another's upload": {"source": "in/other.tif"},
    "an account": {"product": "/etc/passwd"},
    "a way up": {"product": f"{HOME}/../../other/0-r1/a1/x"},
    "another's artifact": {"artifacts": [ARTIFACT | {"name": PRODUCT}]},
    "a published artifact": {"artifacts": [ARTIFACT | {"zone": "external"}]},
}


def claims(world: World) -> dict[str, str]:
    outcome = {}
    for name, claimed in CLAIMS.items():
        try:
            world.run(handler.CLAIM, {"source": "in/a.tif", "claimed": HONEST | claimed})
        except ForeignProduct:
            outcome[name] = REFUSED
        else:
            outcome[name] = ESCAPED
    return outcome


def test_no_result_names_what_is_anothers(world: World) -> None:
    assert claims(world) == dict.fromkeys(CLAIMS, REFUSED)
    assert world.run(handler.CLAIM, {"source": "in/a.tif", "claimed": HONEST})["product"] == HONEST["product"]


def test_a_flow_that_believes_results_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_try, "checked_result", lambda _handler, _attempt, claimed, _named: dict(claimed))
    assert claims(world) == dict.fromkeys(CLAIMS, ESCAPED)


def test_missing_confinement_is_warned_of(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for wanted, held, said in (
        ("available", set(confinement.PARTS), None),
        ("available", {"seccomp", "threads"}, "NOT fully confined.*no Landlock"),
        ("off", set(confinement.PARTS), "NOT confined"),
    ):
        caplog.clear()
        monkeypatch.setenv("CAIRN_TRY_CONFINEMENT", wanted)
        monkeypatch.setattr(confinement, "held_here", lambda held=held: held)
        confining.look()
        lines = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert len(lines) == (said is not None)
        if said:
            assert re.search(said, lines[0])
