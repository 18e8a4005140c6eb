"""An embedded stack on small disks and cut lines, where an order says so: `python -m tests.support.storm.embedded`.

Disks are mounted in a namespace of this process's own, so that they are gone with it however it ends. Lines are ports
that the workers are told instead of a service's own. What runs is `deployments.stack.run`, as `cairn up` runs it.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from deployments.stack import run
from deployments.stack import services as stack_services
from deployments.stack.ports import HOST
from deployments.stack.services import Layout
from deployments.stack.supervisor import StackService

ORDER = "STORM_ORDER"


@dataclass(frozen=True)
class Order:
    """Folders with the size of each one's own disk, and services with the port by which workers are to reach them.

    `elsewhere` has the ports of what the stack does not start itself.
    """

    disks: Mapping[str, int] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    elsewhere: Mapping[str, int] = field(default_factory=dict)

    def written(self) -> str:
        return json.dumps(asdict(self))


def rerouted(service: StackService, ports: Mapping[str, int], lines: Mapping[str, int]) -> StackService:
    """The service as it is; a worker with each address replaced by its line's."""
    if not service.name.startswith("worker-"):
        return service
    told: dict[str, Any] = dict(service.environment)
    for name, line in lines.items():
        own, other = f"{HOST}:{ports[name]}", f"{HOST}:{line}"
        told = {variable: value.replace(own, other) for variable, value in told.items()}
    return replace(service, environment=told)


def main() -> None:
    """Mount, then run the stack of CAIRN_STATE until it is told to stop."""
    order = Order(**json.loads(os.environ.pop(ORDER)))
    for place, megabytes in order.disks.items():
        Path(place).mkdir(parents=True, exist_ok=True)
        options = f"size={megabytes}m,mode=0711"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
    declared = stack_services.services

    def services(layout: Layout) -> list[StackService]:
        ports = {**layout.ports, **order.elsewhere}
        return [rerouted(service, ports, order.lines) for service in declared(layout)]

    vars(run)["services"] = services  # by the name that it was imported under
    run.main()


if __name__ == "__main__":
    main()
