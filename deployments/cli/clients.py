"""The `cairn` command as a client of a running stack, with the development credentials of its state folder."""

from dataclasses import dataclass
from typing import Any

import click
import httpx

from deployments.cli.output import fail
from deployments.stack.state import StackState, read_json


@dataclass(frozen=True)
class StackClients:
    """Addresses and credentials of the running stack."""

    state: StackState
    facts: dict[str, Any]
    credentials: dict[str, Any]

    def url(self, service: str) -> str:
        return str(self.facts["services"][service]["url"])

    def partner(self, platform: str) -> httpx.Client:
        """The gateway, as a partner's client."""
        known = self.credentials["clients"]
        if platform not in known:
            fail(f"there is no development client of {platform!r}; known are {', '.join(known)}.")
        return _client(self.url("gateway"), {"X-API-Key": known[platform]["api_key"]})

    def anonymous(self) -> httpx.Client:
        """The gateway, as anybody."""
        return _client(self.url("gateway"), {})

    def staff(self, role: str, service: str = "gateway") -> httpx.Client:
        """The gateway or the domain, as a person of ours."""
        return _client(self.url(service), {"Authorization": f"Bearer {self.credentials[role]['token']}"})


def _client(url: str, headers: dict[str, str]) -> httpx.Client:
    return httpx.Client(base_url=url, headers=headers, timeout=30.0)


def running_stack() -> StackClients:
    """The stack that is up, or an explanation."""
    state = StackState.default()
    facts, credentials = state.running(), read_json(state.credentials_file)
    if facts is None or credentials is None or facts.get("phase") != "ready":
        fail("no stack is running here. Start one with `cairn up --detach`.")
    return StackClients(state, facts, credentials)


def answer(response: httpx.Response) -> Any:
    """The JSON of a good answer; a refusal ends the command with its own sentence."""
    if not response.is_success:
        fail(_refusal(response), 1 if response.is_client_error else 2)
    return response.json()


def _refusal(response: httpx.Response) -> str:
    try:
        problem = response.json()
        return f"{problem['detail']} ({problem['code']})"
    except (ValueError, KeyError, TypeError):
        return f"the service answered {response.status_code}"


def say(text: str) -> None:
    """A line for people, beside what programs read."""
    click.echo(text, err=True)
