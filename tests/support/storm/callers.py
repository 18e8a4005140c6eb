"""Clients as good partners write them: they ask again, with the same key, until an answer means something."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

AGAIN = {
    httpx.codes.TOO_MANY_REQUESTS,
    httpx.codes.BAD_GATEWAY,
    httpx.codes.SERVICE_UNAVAILABLE,
    httpx.codes.GATEWAY_TIMEOUT,
}
COMES_SOON = {"submission-under-way", "files-being-read"}
LONGEST_PAUSE_SECONDS = 5.0
PATIENCE_SECONDS = 2400.0


class NoAnswer(Exception):
    """Nobody answered for as long as anybody would ask."""


@dataclass
class Caller:
    """Somebody with a credential. `heard` counts the answers and the silences of all callers."""

    url: Callable[[str], str]
    headers: dict[str, str]
    http: httpx.AsyncClient
    heard: "Counter[str]" = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    async def ask(self, method: str, service: str, path: str, **content: Any) -> httpx.Response:
        """Until it is answered. `content` is httpx's; what is sent is the same each time."""
        headers = {**self.headers, **content.pop("headers", {})}
        end, before = time.monotonic() + PATIENCE_SECONDS, "nothing"
        while time.monotonic() < end:
            try:
                answer = await self.http.request(method, self.url(service) + path, headers=headers, **content)
            except httpx.HTTPError as error:
                before, pause = type(error).__name__, 0.5
            else:
                before, pause = str(answer.status_code), _pause(answer)
                if not self._is_to_ask_again(answer, f"{method} {path}"):
                    self.heard[before] += 1
                    return answer
            self.heard[before] += 1
            await asyncio.sleep(pause)
        raise NoAnswer(f"{method} {path} was not answered in {PATIENCE_SECONDS:.0f} s, at last {before}")

    def _is_to_ask_again(self, answer: httpx.Response, what: str) -> bool:
        if answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR:
            self.faults.append(f"{what} was answered {answer.status_code}: {answer.text[:300]}")
            return True
        return answer.status_code in AGAIN or code_of(answer) in COMES_SOON


def code_of(answer: httpx.Response) -> str:
    """Of a problem, its code."""
    if answer.is_success or "json" not in answer.headers.get("content-type", ""):
        return ""
    told = answer.json()
    return str(told.get("code", "")) if isinstance(told, dict) else ""


def _pause(answer: httpx.Response) -> float:
    told = answer.headers.get("Retry-After", "")
    return min(float(told), LONGEST_PAUSE_SECONDS) if told.isdecimal() else 0.5
