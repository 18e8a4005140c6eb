"""What one network of strangers does to everybody else: their p99 beside it and without it, and what memory it takes.

Gateway, domain and serving are a process each. Strangers come from addresses of one IPv6 /64 and show no credential:
they read many bands, send bodies that never end, read nothing of what they ask for, begin to sign in. Others read tiles
from elsewhere and poll as a partner, at a steady rate, by turns with the strangers and without. CAIRN_BENCH_SHORT=1
takes fewer and shorter rounds.
"""

import asyncio
import contextlib
import itertools
import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from platform import python_version
from typing import Any, Final

import numpy as np
import rasterio
from rasterio.transform import from_bounds

from benchmarks import _products
from benchmarks._flow_runs import figure
from benchmarks._load import TOKEN, add_clients, at_rate, domain_environment, p99, this_machine
from benchmarks._servers import Connection, Postgres, Server, postgres, serving, started
from benchmarks.serving import approve
from deployments.stack.owner import end_with_parent
from flows.handlers.raster.declarations import CogResult, CreateCogParams, create_cog

ROUNDS, SHORT_ROUNDS = 6, 1
SECONDS, SHORT_SECONDS = 8.0, 2.0
RATE: Final = 20.0  # of others, tiles and polls by turns
SOCKETS: Final = 200
MOVED, GROWN_MB = 1.2, 1100.0  # what the budgets of serving allow; the other two are told apart below
GROWN: Final = {"gateway": 150.0, "domain": 60.0, "serving": GROWN_MB}
MEGABYTE: Final = 1_000_000
BANDS: Final = 24
ASSET: Final = "bench-strangers"
TILE: Final = f"/tiles/{ASSET}/WebMercatorQuad/{{place}}.png"
MANY_BANDS: Final = f"/tiles/{ASSET}/preview/1024x1024.npy"
SETTLED_SECONDS: Final = 0.5
Strangers = Callable[[int, float], Coroutine[Any, Any, Counter[str]]]


@dataclass
class Bench:
    """The three processes, with the most memory that each took beyond what it had at first."""

    servers: dict[str, Server]
    first_mb: dict[str, float] = field(default_factory=dict)
    most_mb: Counter[str] = field(default_factory=Counter)
    beside: str = ""  # which strangers, where there are some
    most_beside: dict[str, str] = field(default_factory=dict)
    looks: int = 0
    others: Counter[str] = field(default_factory=Counter)  # what others were answered beside strangers, but for 200

    @property
    def port(self) -> int:
        return self.servers["gateway"].port

    def look(self) -> None:
        self.looks += 1
        for name, server in self.servers.items():
            resident = sum(map(_resident_mb, _processes(server)))
            self.first_mb.setdefault(name, resident)
            if (grown := int(resident - self.first_mb[name])) > self.most_mb.setdefault(name, 0):
                self.most_mb[name], self.most_beside[name] = grown, self.beside

    def settle(self) -> None:
        """Wait until what strangers left behind has been dealt with."""
        spent, now = -math.inf, 0.0
        while now - spent > SETTLED_SECONDS / 10:
            spent = now
            time.sleep(SETTLED_SECONDS)
            now = sum(_spent_seconds(pid) for server in self.servers.values() for pid in _processes(server))


def run(rounds: int | None = None, seconds: float | None = None) -> dict[str, Any]:
    """Measure, and report in the shape of all benchmarks."""
    short = bool(os.environ.get("CAIRN_BENCH_SHORT"))
    rounds, seconds = rounds or (SHORT_ROUNDS if short else ROUNDS), seconds or (SHORT_SECONDS if short else SECONDS)
    with tempfile.TemporaryDirectory(prefix="cairn-bench-strangers-") as folder, postgres() as cluster:
        add_clients(cluster)
        _products.add_staff(cluster)
        with _stand(cluster, Path(folder)) as stand:
            results = list(_measured(stand, rounds, seconds))
    return {
        "bench": "strangers",
        "machine": this_machine(),
        "versions": {"python": python_version()},
        "results": results,
    }


def _measured(stand: Bench, rounds: int, seconds: float) -> Iterator[dict[str, Any]]:
    with ProcessPoolExecutor(1, get_context("spawn"), end_with_parent) as elsewhere:
        elsewhere.submit(_strange, "sign-in", stand.port, 0.1).result()  # it has started
        asyncio.run(_asked(stand.port, _head("GET", MANY_BANDS, 0)))  # so has what draws heavy pictures
        asyncio.run(_others(stand, seconds / 2))  # and everything else is warm
        for name in STRANGERS:
            calm, beside, answers = list[float](), list[float](), Counter[str]()
            stand.others.clear()
            for _ in range(rounds):
                calm += asyncio.run(_others(stand, seconds))
                stand.beside = name
                strange = elsewhere.submit(_strange, name, stand.port, seconds)
                beside += asyncio.run(_others(stand, seconds))
                answers += strange.result()
                stand.settle()
                stand.beside = ""
            before, after = p99(calm), p99(beside)
            note = (
                f"of {RATE:.0f} tiles and polls a second, refused: {_told(stand.others)}; baseline: without strangers, "
            )
            note += f"who were answered {_told(answers)}"
            facts: dict[str, Any] = {"baseline": before, "ratio": after / before, "n": len(beside), "note": note}
            yield figure(f"p99_beside_{name.replace('-', '_')}", after, "s", **facts, at_most=MOVED)
    for name, grown in stand.most_mb.items():
        when = f"beside {stand.most_beside.get(name) or 'nobody'}"
        note = f"most resident memory in all rounds above that of warm processes, {when}"
        yield figure(
            f"{name}_grown", grown, "MB", baseline=None, ratio=None, n=stand.looks, note=note, at_most=GROWN[name]
        )


async def _others(stand: Bench, seconds: float) -> list[float]:
    """Delays of those who have nothing to do with the strangers."""
    numbers = itertools.count()

    async def read(connection: Connection) -> None:
        number = next(numbers)
        path = TILE.format(place=_place(number)) if number % 2 else "/api/assets?limit=1"
        heard = await connection.ask("GET", path, "ddh-bench")
        stand.look()
        if heard.status != 200:
            stand.others[f"{heard.status} {json.loads(heard.body)['code']}"] += 1

    return await at_rate(stand.port, read, RATE, seconds)


def _told(answers: Counter[str]) -> str:
    return ", ".join(f"{count} x {status}" for status, count in sorted(answers.items())) or "none"


def _place(number: int) -> str:
    return f"12/{2212 + number % 4}/{1421 + number // 4 % 3}"


def _strange(name: str, port: int, seconds: float) -> Counter[str]:
    """What the strangers were answered; in a process of their own, for ours times the others."""
    return asyncio.run(STRANGERS[name](port, seconds))


async def _read_bands(port: int, seconds: float) -> Counter[str]:
    return await _again_and_again(port, seconds, MANY_BANDS)


async def _sign_in(port: int, seconds: float) -> Counter[str]:
    return await _again_and_again(port, seconds, "/console/sign-in/provider")


async def _again_and_again(port: int, seconds: float, path: str, clients: int = 40) -> Counter[str]:
    answers, until = Counter[str](), asyncio.get_running_loop().time() + seconds

    async def client(number: int) -> None:
        while (left := until - asyncio.get_running_loop().time()) > 0:
            with contextlib.suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(left):
                    answers[await _asked(port, _head("GET", path, number))] += 1

    await asyncio.gather(*map(client, range(clients)))
    return answers


async def _send_bodies(port: int, seconds: float) -> Counter[str]:
    """Half of them where a credential is needed, half where none is."""
    paths = itertools.cycle(("/api/platform/submit", "/stac/search"))
    heads = (_head("POST", path, number) for number, path in zip(range(SOCKETS), paths, strict=False))
    more = b"content-type: application/json\r\ncontent-length: 950000\r\n\r\n" + b" " * 900_000
    return await _held(port, seconds, [head[:-2] + more for head in heads])


async def _read_nothing(port: int, seconds: float) -> Counter[str]:
    path = f"/tiles/{ASSET}/preview/512x512.npy"
    return await _held(port, seconds, [_head("GET", path, number) for number in range(SOCKETS)], reads=False)


async def _held(port: int, seconds: float, messages: list[bytes], *, reads: bool = True) -> Counter[str]:
    """Each on a connection that is held open until the time is over."""

    async def hold(message: bytes) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        try:
            writer.write(message)
            async with asyncio.timeout(seconds):
                status = (await reader.readline()).split(b" ")[1].decode() if reads else ""
                if not reads:
                    await asyncio.sleep(seconds)
                return status
        except (TimeoutError, ConnectionError, IndexError):
            return "nothing"
        finally:
            writer.close()

    return Counter(await asyncio.gather(*map(hold, messages)))


async def _asked(port: int, message: bytes) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(message[:-2] + b"connection: close\r\n\r\n")
        status = (await reader.readline()).split(b" ")[1].decode()
        while await reader.read(MEGABYTE):
            pass
        return status
    finally:
        writer.close()


def _head(method: str, path: str, number: int) -> bytes:
    """The gateway believes what loopback says of addresses: all of these are of one network."""
    return f"{method} {path} HTTP/1.1\r\nhost: bench.test\r\nx-forwarded-for: 2001:db8:1:2::{number:x}\r\n\r\n".encode()


STRANGERS: Final[dict[str, Strangers]] = {
    "bands": _read_bands,
    "bodies": _send_bodies,
    "slow-reads": _read_nothing,
    "sign-in": _sign_in,
}


@contextmanager
def _stand(cluster: Postgres, root: Path) -> Iterator[Bench]:
    with contextlib.ExitStack() as stack:
        domain = stack.enter_context(serving("domain.app:create_app", domain_environment(cluster, str(root))))
        data = {"CAIRN_DATABASE_SERVING_URL": cluster.url("cairn_serving"), "CAIRN_STORAGE_ROOT": str(root)}
        tiles = stack.enter_context(serving("gateway.serving.app:create_app", data))
        environment = {
            "CAIRN_DATABASE_GATEWAY_URL": cluster.url("cairn_gateway"),
            "CAIRN_DOMAIN_URL": f"http://127.0.0.1:{domain.port}",
            "CAIRN_SERVING_URL": f"http://127.0.0.1:{tiles.port}",
            "CAIRN_SERVICE_TOKEN": TOKEN,
            "CAIRN_KEEP_ALIVE_SECONDS": "120",
        }
        gateway = stack.enter_context(started(["gateway"], environment))
        _products.add_processed(cluster, root, _made(root), ASSET)
        asyncio.run(approve(domain, ASSET))
        yield Bench({"gateway": gateway, "domain": domain, "serving": tiles})


def _made(root: Path) -> CogResult:
    """A product of many bands, made as every other."""
    path = root / "bronze" / _products.SOURCE
    path.parent.mkdir(parents=True)
    place = from_bounds(14.4, 47.9, 14.8, 48.2, 1024, 1024)
    shape = {"width": 1024, "height": 1024, "count": BANDS, "dtype": "uint16"}
    dice = np.random.default_rng(7)
    with rasterio.open(path, "w", driver="GTiff", crs="EPSG:4326", transform=place, tiled=True, **shape) as raster:
        raster.write(dice.integers(100, 4000, (BANDS, 1024, 1024), dtype="uint16"))
    return create_cog(CreateCogParams(source=_products.SOURCE), _products.context_of(root, {}, "bench"))


def _processes(server: Server) -> Iterator[int]:
    """The server's own, and those that it has started."""
    yield server.pid
    for children in Path(f"/proc/{server.pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            yield from map(int, children.read_text().split())


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


def _spent_seconds(pid: int) -> float:
    return Server(0, pid).cpu_seconds()


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    sys.stdout.write("\n")
