"""What earlier releases had Prefect do by itself is taken away by a rollout; what operators automate is left alone."""

import pytest
from prefect.client.orchestration import get_client
from prefect.events.actions import DoNothing
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.settings import PREFECT_API_URL, temporary_settings

from deployments.automations import RETIRED, remove_retired
from tests.support.prefect_server import PrefectServer


def automation(name: str, *tags: str) -> AutomationCore:
    trigger = EventTrigger(expect={"never"}, posture=Posture.Reactive, threshold=1)
    return AutomationCore(name=name, tags=list(tags), trigger=trigger, actions=[DoNothing()])


@pytest.mark.parametrize("name", RETIRED)
async def test_an_automation_that_marked_silent_runs_is_removed_once(prefect_server: PrefectServer, name: str) -> None:
    with temporary_settings({PREFECT_API_URL: prefect_server.api}):
        async with get_client(sync_client=False) as prefect:
            for one in (automation(name, "cairn"), automation(name, "theirs"), automation("theirs", "cairn")):
                await prefect.create_automation(one)
            assert [str(change).split() for change in [one async for one in remove_retired(prefect)]] == [
                ["removed", "automation", *name.split()]
            ]
            assert [change async for change in remove_retired(prefect)] == []
            kept = await prefect.read_automations()
    assert sorted((one.name, one.tags) for one in kept) == sorted([(name, ["theirs"]), ("theirs", ["cairn"])])
