"""A process like a worker's of an older release, which lacks one handler; runs a compiled flow and ends.

`python -m tests.support.older_release WORKFLOW HANDLER`, with a worker's environment.
"""

import asyncio
import sys
from collections.abc import Awaitable
from typing import Any, cast

from flows import catalog
from flows.handlers import availability
from flows.handlers.registry import Registry, registry


def main() -> None:
    workflow_id, lacking = sys.argv[1:]
    has = {name: handler for name, handler in registry().items() if name != lacking}
    vars(availability)["registry"] = lambda: Registry(has)
    asyncio.run(carry_out(workflow_id))


async def carry_out(workflow_id: str) -> None:
    state = await cast("Awaitable[Any]", catalog.flow(workflow_id)(return_state=True))
    print(state.name, state.message)  # noqa: T201


if __name__ == "__main__":
    main()
