"""Steps of prefect.yaml: what `prefect deploy --all` does beside Prefect's own work, so that the domain learns of it.

Before the first deployment it asks the domain whether a file has other content than its published version, before the
last it has the domain publish what is new. Imports nothing of Prefect.
"""

import os
from pathlib import Path
from typing import Any

from deployments.cli.publishing import Domain, differing, found_reused, known_domain
from deployments.deploy import runnable_plans
from deployments.stack.state import REPOSITORY, StackState

NOBODY = "No domain was told: it takes workflows at its start, or name it by CAIRN_DOMAIN_URL and CAIRN_OPERATOR_TOKEN."


class NotPublished(RuntimeError):
    """The domain does not take these files."""


def refuse_reused_versions() -> dict[str, Any]:
    """Refuse to deploy other content under a published version."""
    if domain := _domain():
        plans, _ = runnable_plans(_folder())
        if told := found_reused(plans, domain.published(), _folder()):
            raise NotPublished("\n".join(told))
    return {}


def publish() -> dict[str, Any]:
    """Have every process of the domain take up what these files say."""
    domain = _domain()
    if domain is None:
        print(NOBODY)  # noqa: T201 - a step of a command
        return {}
    plans, skipped = runnable_plans(_folder())
    if told := differing(plans, domain.publish(), skipped):
        raise NotPublished("\n".join(told))
    return {}


def _folder() -> Path:
    return Path(os.environ.get("CAIRN_WORKFLOWS_DIR") or REPOSITORY / "workflows")


def _domain() -> Domain | None:
    """The domain that the environment names, or that of the running stack whose Prefect server is the one aimed at."""
    state = StackState.default()
    services = (state.running() or {}).get("services", {})
    is_own = services and os.environ.get("PREFECT_API_URL", "").startswith(f"{services['prefect']['url']}/")
    return known_domain(state if is_own else None)
