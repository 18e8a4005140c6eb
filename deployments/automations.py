"""What Prefect does by itself when events stay away. Nothing here decides: the domain does, with its own heartbeat.

An automation may be late, fire in vain or not at all. So what it does must be harmless on a healthy run: it only marks.
"""

from datetime import timedelta

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification

from deployments.deploy import OURS
from deployments.rollout.report import Change, Verdict, differing

HEARTBEAT_SECONDS = 30  # PREFECT_FLOWS_HEARTBEAT_FREQUENCY of our workers
SILENT_SECONDS = 3 * HEARTBEAT_SECONDS
HEARTBEAT = "prefect.flow-run.heartbeat"


def silent_flow_runs(seconds: float = SILENT_SECONDS) -> AutomationCore:
    """Marks a flow run of ours Crashed when, after a heartbeat, nothing more is heard of it.

    Any word of the run counts, not only heartbeats and Prefect's own names of final states: our flows give theirs names
    of their own. The domain takes the mark as a hint: a run that still reports to it goes on and commits.
    """
    return AutomationCore(
        name="cairn: silent flow runs",
        description="Suspects flow runs whose heartbeats stopped. The domain decides what becomes of them.",
        tags=[OURS],
        trigger=EventTrigger(
            match=ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
            match_related=ResourceSpecification({"prefect.resource.id": f"prefect.tag.{OURS}"}),
            after={HEARTBEAT},
            expect={"prefect.flow-run.*"},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=seconds),
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED,
                message=f"Suspected: no heartbeat for {seconds:.0f} seconds. The domain decides.",
            )
        ],
    )


async def ensure_automation(client: PrefectClient, wanted: AutomationCore) -> Change:
    """Create or correct the automation of this name. Whether operators switched it off is theirs to say."""
    found = await client.read_automations_by_name(wanted.name)
    if not found:
        await client.create_automation(wanted)
        return Change(Verdict.CREATED, "automation", wanted.name)
    fields = {name: getattr(wanted, name) for name in ("description", "tags", "trigger", "actions")}
    if not (changed := differing(fields, found[0])):
        return Change(Verdict.UNCHANGED, "automation", wanted.name)
    await client.update_automation(found[0].id, wanted.model_copy(update={"enabled": found[0].enabled}))
    return Change(Verdict.CHANGED, "automation", wanted.name, ", ".join(changed))
