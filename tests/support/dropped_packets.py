"""A domain whose packets to its database are dropped: `unshare --net python -m tests.support.dropped_packets FOLDER`.

All of it, the database too, is in a network of its own, whose loopback drops everything for one and a half loss
thresholds. Flow runs reach the domain without a network. Tells in JSON how it was.
"""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from tests.chaos.test_outages import ENDED, OUTAGE_SECONDS, WAIT_SECONDS, fleet
from tests.support.cluster import running_cluster
from tests.support.platform import Domain

DROP = ["tc", "qdisc", "add", "dev", "lo", "root", "pfifo", "limit", "0"]
PASS = ["tc", "qdisc", "del", "dev", "lo", "root"]


async def main(folder: Path) -> dict[str, Any]:
    """Live through it."""
    order("ip", "link", "set", "lo", "up")
    with running_cluster() as cluster, cluster.database() as database:
        async with fleet(database, folder, 1) as one:
            [domain] = one.domains
            before = await readiness(domain)
            order(*DROP)
            try:
                over = time.monotonic() + OUTAGE_SECONDS
                began = time.monotonic()
                during = await readiness(domain)
                told_after = time.monotonic() - began
                await asyncio.sleep(max(0.0, over - time.monotonic()))
            finally:
                order(*PASS)
            one.done.set()
            await asyncio.wait_for(asyncio.gather(*one.lives), WAIT_SECONDS)
            states = dict(domain.rows(ENDED, [flow.run_id for flow in one.flows]))
    return {"before": before, "during": during, "attempts": states, "n": len(one.flows), "told_after": told_after}


async def readiness(domain: Domain) -> int:
    async with httpx.AsyncClient(transport=domain.transport, base_url="http://domain") as http:
        return (await http.get("/readyz")).status_code


def order(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(sys.argv[1])))))  # noqa: T201
