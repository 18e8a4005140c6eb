"""Runs as operators begin them in Prefect's UI: a deployment's form, filled in, checked and sent as its pages do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.clock import until
from tests.support.stack import RunningStack

FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
WAIT_SECONDS = 600.0


@dataclass(frozen=True)
class QuickRun:
    """A flow run that somebody began in Prefect."""

    stack: RunningStack
    flow_run_id: str

    def shown(self) -> dict[str, Any]:
        """The flow run as Prefect shows it."""
        with self.stack.prefect() as http:
            found: dict[str, Any] = http.get(f"/flow_runs/{self.flow_run_id}").raise_for_status().json()
        return found

    def state(self) -> str:
        return str(self.shown()["state_name"])

    def is_over(self) -> bool:
        return self.shown()["state_type"] in FINAL

    def until_over(self, seconds: float = WAIT_SECONDS) -> str:
        """The name of the state in which it ended."""
        until(self.is_over, seconds, lambda: f"it is {self.state()}")
        return self.state()

    def runs(self) -> list[str]:
        """The runs that the domain has made of it: one, or none before it begins."""
        query = "select distinct run_id::text from app.attempts where flow_run_id = %s"
        return [str(run_id) for (run_id,) in self.stack.rows(query, self.flow_run_id)]

    def run_id(self) -> str:
        """The run that the domain makes of it, once it has begun."""
        until(self.runs, WAIT_SECONDS, lambda: f"it registered no run and is {self.state()}")
        [run_id] = self.runs()
        return run_id

    def record(self) -> dict[str, Any]:
        """What the domain says of its run."""
        with self.stack.operator() as http:
            found: dict[str, Any] = http.get(f"/api/v1/runs/{self.run_id()}").raise_for_status().json()
        return found

    def press(self, state: str) -> None:
        """Cancel (`CANCELLING`) or Retry (`SCHEDULED`), by the button of its page."""
        body = {"state": PRESSED[state], "force": state == "SCHEDULED"}
        with self.stack.prefect() as http:
            http.post(f"/flow_runs/{self.flow_run_id}/set_state", json=body).raise_for_status()


PRESSED: Mapping[str, Mapping[str, Any]] = {
    "CANCELLING": {"type": "CANCELLING", "name": "Cancelling"},
    "SCHEDULED": {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the Prefect UI"},
}


def deployment(stack: RunningStack, workflow: str) -> dict[str, Any]:
    with stack.prefect() as http:
        path = f"/deployments/name/{workflow}/{workflow}"
        found: dict[str, Any] = http.get(path).raise_for_status().json()
    return found


def faults(stack: RunningStack, schema: Mapping[str, Any], values: Mapping[str, Any]) -> list[Any]:
    """What the form says of these values before it can be sent."""
    with stack.prefect() as http:
        told = http.post("/ui/schemas/validate", json={"schema": schema, "values": values}).raise_for_status().json()
    found: list[Any] = told["errors"]
    return found


def quick_run(stack: RunningStack, workflow: str, inputs: Mapping[str, Any]) -> QuickRun:
    """Send every field of the form, with its default where the operator leaves it; the form finds nothing wrong."""
    there = deployment(stack, workflow)
    schema = there["parameter_openapi_schema"]
    defaults = {name: field["default"] for name, field in schema["properties"].items() if "default" in field}
    values = defaults | dict(inputs)
    assert faults(stack, schema, values) == []
    body = {"parameters": values, "state": {"type": "SCHEDULED", "message": "Run from the Prefect UI"}}
    with stack.prefect() as http:
        made = http.post(f"/deployments/{there['id']}/create_flow_run", json=body).raise_for_status().json()
    return QuickRun(stack, str(made["id"]))
