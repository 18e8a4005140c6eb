"""Where `cairn deploy` rolls out to. Decided before anything imports Prefect, which reads its settings then."""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from deployments.cli.output import fail
from deployments.stack.state import REPOSITORY, StackState, read_json

TIMEOUT_SECONDS = 30.0
URL, AUTH, FOLDER = "PREFECT_API_URL", "PREFECT_API_AUTH_STRING", "CAIRN_WORKFLOWS_DIR"


@dataclass(frozen=True)
class Aim:
    """A Prefect server's API, and the running stack that it belongs to, if it is one of ours."""

    api: str
    stack: StackState | None
    workflows: Path


def aim(workflows: Path | None) -> Aim:
    """The server that the environment names, else the running stack's. Afterwards the environment says so too."""
    state = StackState.default()
    facts = state.running() or {}
    own = f"{facts['services']['prefect']['url']}/api" if facts.get("phase") == "ready" else ""
    api = os.environ.get(URL, "").rstrip("/") or own
    if not api:
        fail("no stack is running here, and PREFECT_API_URL names no server. Start one with `cairn up --detach`.")
    is_own = _place(api) == _place(own)
    told = facts.get("workflows") if is_own else None
    folder = workflows or Path(os.environ.get(FOLDER) or told or REPOSITORY / "workflows")
    # Without a server Prefect would start one of its own, and wait for it.
    os.environ |= {URL: api, "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false", FOLDER: str(folder.resolve())}
    if is_own:
        credentials = read_json(state.credentials_file) or {}
        os.environ.setdefault(AUTH, credentials["prefect"]["auth_string"])
        os.environ.setdefault("PREFECT_HOME", str(state.root / "prefect"))
    _refuse_unreachable(api)
    return Aim(api, state if is_own else None, folder)


def _place(api: str) -> tuple[str, int | None, str]:
    parts = urlsplit(api)
    return (parts.hostname or "").replace("localhost", "127.0.0.1"), parts.port, parts.path


def _refuse_unreachable(api: str) -> None:
    import httpx

    user, _, password = os.environ.get(AUTH, "").partition(":")
    try:
        answer = httpx.get(f"{api}/admin/version", auth=(user, password) if user else None, timeout=TIMEOUT_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        fail(f"the Prefect server at {_shown(api)} does not answer ({type(error).__name__}). Nothing was deployed.")
    if answer.status_code in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN} and "PREFECT_API_KEY" not in os.environ:
        fail(f"the Prefect server at {_shown(api)} refuses the credential. Set {AUTH}. Nothing was deployed.")
    if answer.is_server_error:
        fail(f"the Prefect server at {_shown(api)} answered {answer.status_code}. Nothing was deployed.")


def _shown(api: str) -> str:
    """The address without a credential that it may hold."""
    parts = urlsplit(api)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
