"""The service of a stack that opens it to other hosts, with what it needs beside it: certificates, worker settings."""

import sys
from collections.abc import Mapping

from deployments.stack import health
from deployments.stack.opening import OPENED, Opening
from deployments.stack.postgres import as_user
from deployments.stack.supervisor import StackService


def front_service(
    opening: Opening, ports: Mapping[str, int], environment: Mapping[str, str], storage: Mapping[str, str]
) -> StackService:
    """What ends the TLS of other hosts. It holds no credential but its certificate's key."""
    opening.prepare()
    opening.write_worker_settings(ports, storage)
    address, opened = opening.bound(), [ports[name] for name in OPENED]
    files = opening.certificates
    told = ["--address", address, "--certificate", str(files.server), "--key", str(files.server_key)]
    told += [word for port in opened for word in ("--port", str(port))]

    async def ready() -> bool:
        return all([await health.accepts(address, port) for port in opened])

    command = [*as_user(None), sys.executable, "-m", "deployments.stack.front", *told]
    return StackService("front", command, environment, needs=OPENED, ready=ready, url=opening.url(opened[0]))
