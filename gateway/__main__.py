"""`python -m gateway --host 0.0.0.0 --port 8000`: the gateway as a server of its own."""

import argparse
import resource

import uvicorn

from gateway.edge.http_protocol import ArrivalLimits, arriving_within
from gateway.settings import settings


def main() -> None:
    """Serve until told to stop. Settings come from the environment."""
    parser = argparse.ArgumentParser(prog="python -m gateway", description="Serve the gateway.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    chosen, config = parser.parse_args(), settings()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # who opens many connections must not close the door
    limits = ArrivalLimits(
        config.head_seconds,
        config.body_seconds,
        write_seconds=config.write_seconds,
        body_bytes_per_second=config.body_bytes_per_second,
        write_bytes_per_second=config.write_bytes_per_second,
        max_head_bytes=config.max_head_bytes,
    )
    uvicorn.run(
        "gateway.app:create_app",
        factory=True,
        host=chosen.host,
        port=chosen.port,
        http=arriving_within(limits),
        ws="none",
        access_log=False,
        server_header=False,
        timeout_keep_alive=config.keep_alive_seconds,
        timeout_graceful_shutdown=3,
    )


if __name__ == "__main__":
    main()
