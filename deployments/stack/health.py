"""Checks services with small questions that are answered yes or no, never with an exception."""

import asyncio
import base64
import contextlib
import json
from urllib.parse import urlsplit

from domain.rules.holds import held_places
from domain.shared.together import together

TIMEOUT_SECONDS = 3.0


async def http_ok(url: str, *, basic: str | None = None) -> bool:
    """Whether a GET is answered with 200."""
    status, _ = await _http(url, "GET", basic=basic)
    return status == 200


async def worker_online(api: str, pool: str, *, basic: str) -> bool:
    """Whether the work pool has a worker that Prefect counts as online."""
    status, body = await _http(f"{api}/work_pools/{pool}/workers/filter", "POST", basic=basic, body=b"{}")
    if status != 200:
        return False
    with contextlib.suppress(ValueError, TypeError):
        return any(worker["status"] == "ONLINE" for worker in json.loads(body))
    return False


async def held_in_prefect(api: str, *, basic: str) -> dict[str, str]:
    """Which pools and queues of Prefect's give nothing to workers now, and how; nothing where it does not answer."""
    both = (_http(f"{api}/{what}/filter", "POST", basic=basic, body=b"{}") for what in ("work_pools", "work_queues"))
    (of_pools, pools), (of_queues, queues) = await together(*both)
    with contextlib.suppress(ValueError, TypeError, KeyError):
        if of_pools == of_queues == 200:
            return held_places(json.loads(pools), json.loads(queues))
    return {}


async def accepts(host: str, port: int) -> bool:
    """Whether anything takes connections there."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(TIMEOUT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
            return True
    return False


async def redis_answers(port: int, password: str) -> bool:
    """Whether Redis takes the password and answers a ping."""
    with contextlib.suppress(OSError, TimeoutError, EOFError):
        async with asyncio.timeout(TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"AUTH {password}\r\nPING\r\n".encode())
            answer = await reader.readuntil(b"\r\n") + await reader.readuntil(b"\r\n")
            writer.close()
            return answer.endswith(b"+PONG\r\n")
    return False


async def _http(url: str, method: str, *, basic: str | None, body: bytes = b"") -> tuple[int, bytes]:
    """A bare HTTP/1.0 exchange: the supervisor asks ten times a second and must not load a client library for it."""
    target = urlsplit(url)
    headers = [f"{method} {target.path or '/'} HTTP/1.0", f"Host: {target.netloc}", "Content-Type: application/json"]
    if basic:
        headers.append(f"Authorization: Basic {base64.b64encode(basic.encode()).decode()}")
    headers += [f"Content-Length: {len(body)}", "", ""]
    with contextlib.suppress(OSError, TimeoutError, ValueError, IndexError):
        async with asyncio.timeout(TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection(target.hostname, target.port)
            writer.write("\r\n".join(headers).encode() + body)
            head, _, content = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
            return int(head.split(b" ", 2)[1]), content
    return 0, b""
