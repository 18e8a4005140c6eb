"""What passes the gateway: submissions and polls a second, against the least they cost and against the domain alone.

One gateway and one domain process on one durable PostgreSQL, in the same run as both baselines. Throughput is that of
clients that wait for their answers; beside it stands the highest rate that lasts when nobody waits. The last part has
one partner call ten times as often as it may and watches another. CAIRN_BENCH_SHORT=1 takes less time for each part.
"""

import asyncio
import contextlib
import json
import os
import platform
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing import get_context
from typing import Any
from uuid import uuid4

from benchmarks._history import analyze
from benchmarks._load import (
    CONCURRENCY,
    TOKEN,
    UNLIMITED,
    HeldRate,
    add_bare_table,
    add_clients,
    at_rate,
    domain_environment,
    expect,
    flood,
    highest,
    p99,
    submission,
    this_machine,
)
from benchmarks._servers import Connection, Postgres, Server, postgres, served, started
from deployments.stack.owner import end_with_parent
from deployments.stack.ports import any_port

SECONDS, SHORT_SECONDS = 6.0, 2.0
WARM_UP_SECONDS = 2.0
BARE_TARGET, DOMAIN_TARGET = 0.06, 0.5
# What one partner may do to another's p99: one of the two must hold.
MOVED_TARGET, MOVED_SECONDS = 0.2, 0.010
RATE = 100.0  # what each partner may call in a second, in the part about overload: what a client may by default
SHORT_RATE = 20.0  # ten times as much is sent on a busy machine too
OVERLOAD_SECONDS, SHORT_OVERLOAD_SECONDS = 20.0, 3.0  # a p99 needs its thousand
STEPS = (0.6, 0.7, 0.8, 0.9, 1.0)  # of what waiting clients get through
BOUND_SECONDS = 0.25  # of the p99 at a rate that is called sustained
DDH, ARCGIS = "ddh-bench", "arcgis-bench"
Act = Callable[[Connection], Awaitable[None]]


@dataclass(frozen=True)
class Bench:
    """Both processes, running."""

    gateway: Server
    domain: Server

    @contextmanager
    def costs(self) -> "Iterator[dict[str, float]]":
        """Fills in the processor time that each of the two used meanwhile."""
        spent: dict[str, float] = {}
        before = self.gateway.cpu_seconds(), self.domain.cpu_seconds()
        yield spent
        spent["gateway"] = self.gateway.cpu_seconds() - before[0]
        spent["domain"] = self.domain.cpu_seconds() - before[1]


def run(seconds: float | None = None) -> dict[str, Any]:
    """Measure, and report in the shape of all benchmarks."""
    seconds = seconds or (SHORT_SECONDS if os.environ.get("CAIRN_BENCH_SHORT") else SECONDS)
    overload = (OVERLOAD_SECONDS, RATE) if seconds >= SECONDS else (SHORT_OVERLOAD_SECONDS, SHORT_RATE)
    with postgres() as cluster, tempfile.TemporaryDirectory() as storage:
        add_bare_table(cluster)
        add_clients(cluster)
        bare, bare_n = _bare(cluster, seconds)
        alone, alone_n = _alone(cluster, storage, seconds)
        results = [
            *_throughput(cluster, storage, seconds, (bare, bare_n), (alone, alone_n)),
            *_overload(cluster, storage, *overload),
        ]
    return {"bench": "gateway", "machine": this_machine(), "versions": _versions(), "results": results}


def _bare(cluster: Postgres, seconds: float) -> tuple[float, int]:
    with served("benchmarks._bare:create_app", {"BENCH_URL": cluster.url()}) as port:
        return asyncio.run(flood(port, _posting("/submit", TOKEN, submission), seconds))


def _alone(cluster: Postgres, storage: str, seconds: float) -> tuple[float, int]:
    """The domain without the gateway, in a database that is in use as it is for the gateway's turn."""
    submit = _posting("/api/v1/submit", TOKEN, submission)
    with served("domain.app:create_app", domain_environment(cluster, storage)) as port:
        asyncio.run(flood(port, submit, min(seconds, WARM_UP_SECONDS)))
        analyze(cluster.url())
        return asyncio.run(flood(port, submit, seconds))


def _throughput(
    cluster: Postgres, storage: str, seconds: float, bare: tuple[float, int], alone: tuple[float, int]
) -> list[dict[str, Any]]:
    submit = _posting("/api/platform/submit", DDH, _partners_submission)
    with _stand(cluster, storage, UNLIMITED) as stand:
        port = stand.gateway.port
        asyncio.run(flood(port, submit, min(seconds, WARM_UP_SECONDS)))
        with stand.costs() as spent:
            rate, n = asyncio.run(flood(port, submit, seconds))
        delays = asyncio.run(at_rate(port, submit, rate / 2, seconds))
        offered = 0.8 * rate
        busy = asyncio.run(at_rate(port, submit, offered, seconds))
        steps = [HeldRate(part * rate, asyncio.run(at_rate(port, submit, part * rate, seconds))) for part in STEPS]
        request_id = asyncio.run(_one_request(port))
        poll = _polling(request_id)
        polls, polls_n = asyncio.run(flood(port, poll, seconds))
        poll_delays = asyncio.run(at_rate(port, poll, polls / 2, seconds))
    note = f"one gateway and one domain process, {CONCURRENCY} clients"
    return [
        _result("submits_per_second", rate, "1/s", n, note=f"{note}; baseline: FastAPI and psycopg, one row")
        | _compared(rate, bare[0], BARE_TARGET),
        _result("submits_over_domain_alone", rate, "1/s", n, note=f"{note}; baseline: the domain without the gateway")
        | _compared(rate, alone[0], DOMAIN_TARGET),
        _result("domain_alone_per_second", alone[0], "1/s", alone[1], note="the second baseline"),
        _sustained(steps, rate),
        *_quantiles("submit", "at half the throughput, from when each was due", delays),
        *_quantiles("submit_busy", f"at {offered:.0f}/s, four fifths of the throughput", busy),
        _result("polls_per_second", polls, "1/s", polls_n, note=note),
        *_quantiles("poll", "at half the throughput of polls", poll_delays),
        *(
            _result(f"{name}_ms_per_submit", 1000 * used / n, "ms", n, note="processor time of that process")
            for name, used in spent.items()
        ),
    ]


def _sustained(steps: Sequence[HeldRate], closed: float) -> dict[str, Any]:
    """The highest rate at which submissions may come by themselves; clients that wait for answers slow themselves."""
    found = highest(steps, BOUND_SECONDS)
    tried = ", ".join(f"{step.rate:.0f}/s p99 {p99(step.delays):.3f} s" for step in steps)
    bound = f"p99 within {BOUND_SECONDS} s and no growing backlog"
    note = f"open loop, {bound}: {tried}; baseline: {CONCURRENCY} waiting clients"
    n = sum(len(step.delays) for step in steps)
    facts = _result("sustained_submits_per_second", found.rate if found else 0.0, "1/s", n, note=note)
    return facts | {"baseline": round(closed, 1), "ratio": round((found.rate if found else 0.0) / closed, 3)}


def _overload(cluster: Postgres, storage: str, seconds: float, rate: float) -> list[dict[str, Any]]:
    """Measure another partner's delays beside one that calls as often as it may, and ten times as often."""
    with (
        _stand(cluster, storage, rate) as stand,
        ProcessPoolExecutor(1, get_context("spawn"), end_with_parent) as other,
    ):
        port = stand.gateway.port
        other.submit(_press, port, rate, 1.0).result()  # its process has started, and so has everything else
        calm, _ = asyncio.run(_beside(port, other, rate, rate, seconds))
        disturbed, answers = asyncio.run(_beside(port, other, rate, 10 * rate, seconds))
    before, after = p99(calm), p99(disturbed)
    moved = after / before - 1
    limited, silent = answers["limited"], answers["limited without Retry-After"]
    note = "of a partner at half its rate beside one at ten times its own; baseline: beside one at its own rate"
    facts = _result("p99_beside_overload", after, "s", len(disturbed), note=f"{note}; or moved by less than 10 ms")
    facts |= {"baseline": round(before, 5), "ratio": round(after / before, 3), "target": 1 + MOVED_TARGET}
    said = _result("retry_after_in_429s", (limited - silent) / limited, "1", limited, note="share that says when")
    return [
        facts | {"holds": moved < MOVED_TARGET or after - before < MOVED_SECONDS},
        said | {"target": 1.0, "holds": silent == 0 and limited > 0},
    ]


async def _beside(
    port: int, other: Executor, rate: float, pressed: float, seconds: float
) -> tuple[list[float], Counter[str]]:
    """The delays of one partner that keeps to its rate, and what the other was answered."""
    calm = _posting("/api/platform/submit", ARCGIS, _other_partners_submission)
    pressing = asyncio.get_running_loop().run_in_executor(other, _press, port, pressed, seconds + 2)
    await asyncio.sleep(1)  # by then what may be called at once is used up
    delays = await at_rate(port, calm, rate / 2, seconds)
    return delays, await pressing


def _press(port: int, rate: float, seconds: float) -> Counter[str]:
    """Submit at this rate from a process of its own, since ours measures the delays of others."""
    answers: Counter[str] = Counter()

    async def submit(connection: Connection) -> None:
        heard = await connection.ask("POST", "/api/platform/submit", DDH, _partners_submission())
        answers["limited" if heard.status == 429 else "other"] += 1
        answers["limited without Retry-After"] += heard.status == 429 and "retry-after" not in heard.headers
        if heard.status != 429:
            expect(heard.status)

    asyncio.run(at_rate(port, submit, rate, seconds))
    return answers


@contextmanager
def _stand(cluster: Postgres, storage: str, calls_per_second: float) -> Iterator[Bench]:
    with contextlib.ExitStack() as stack:
        quiet = ["--no-access-log", "--log-level", "warning", "--timeout-keep-alive", "120"]
        factory = ["uvicorn", "--factory", "domain.app:create_app", *quiet]
        domain = stack.enter_context(started(factory, domain_environment(cluster, storage)))
        limits = {
            f"CAIRN_{who}_CALLS_{what}": str(calls_per_second)
            for who in ("CLIENT", "PLATFORM")
            for what in ("PER_SECOND", "BURST")
        }
        environment = limits | {
            "CAIRN_DATABASE_GATEWAY_URL": cluster.url("cairn_gateway"),
            "CAIRN_DOMAIN_URL": f"http://127.0.0.1:{domain.port}",
            "CAIRN_SERVING_URL": f"http://127.0.0.1:{any_port()}",
            "CAIRN_SERVICE_TOKEN": TOKEN,
            "CAIRN_KEEP_ALIVE_SECONDS": "120",
        }
        yield Bench(stack.enter_context(started(["gateway"], environment)), domain)


def _posting(path: str, token: str, body: Callable[[], bytes]) -> Act:
    async def post(connection: Connection) -> None:
        expect(await connection.post(path, token, body()))

    return post


def _polling(request_id: str) -> Act:
    async def poll(connection: Connection) -> None:
        heard = await connection.ask("GET", f"/api/platform/status/{request_id}", DDH)
        if heard.status != 200:
            raise RuntimeError(f"A poll was answered with {heard.status}.")

    return poll


async def _one_request(port: int) -> str:
    connection = await Connection.open(port)
    heard = await connection.ask("POST", "/api/platform/submit", DDH, _partners_submission())
    connection.close()
    return str(json.loads(heard.body)["request_id"])


def _partners_submission() -> bytes:
    """Return a submission of a new asset in ddh's words."""
    return json.dumps({"dataset_id": "bench", "resource_id": uuid4().hex, "version_id": "1"} | _work("ddh")).encode()


def _other_partners_submission() -> bytes:
    return json.dumps({"item_id": uuid4().hex, "layer_index": "0", "version": "1"} | _work("arcgis")).encode()


def _work(platform: str) -> dict[str, str]:
    return {"data_type": "raster", "operation": "ingest", "source": f"uploads/{platform}/bench.tif"}


def _quantiles(name: str, note: str, delays: Sequence[float]) -> list[dict[str, Any]]:
    return [
        _result(f"{name}_p50", statistics.median(delays), "s", len(delays), note=note),
        _result(f"{name}_p99", p99(delays), "s", len(delays), note=note),
    ]


def _compared(value: float, baseline: float, target: float) -> dict[str, Any]:
    ratio = value / baseline
    return {"baseline": round(baseline, 1), "ratio": round(ratio, 3), "target": target, "holds": ratio >= target}


def _result(name: str, value: float, unit: str, n: int, *, note: str) -> dict[str, Any]:
    """A figure without a baseline of its own."""
    facts = {"name": name, "value": round(value, 5 if unit == "s" else 3), "unit": unit, "n": n, "note": note}
    return facts | {"baseline": None, "ratio": None, "target": None, "holds": None}


def _versions() -> dict[str, str]:
    names = ("aiohttp", "fastapi", "psycopg", "pydantic", "uvicorn")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    sys.stdout.write("\n")
