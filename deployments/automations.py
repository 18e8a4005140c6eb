"""Removes automations that earlier releases made in Prefect.

Nothing of ours acts on events. They may be minutes late, or lost, and then speak of runs that are over; the domain
finds what is silent by its own heartbeats, and sooner (decision 47). What operators automate is theirs.
"""

from collections.abc import AsyncIterator

from prefect.client.orchestration import PrefectClient

from deployments.deploy import OURS
from deployments.rollout.report import Change, Difference

RETIRED = ("cairn: silent flow runs",)


async def remove_retired(client: PrefectClient) -> AsyncIterator[Change]:
    """Delete what an earlier release made, if it is still there."""
    for name in RETIRED:
        for found in await client.read_automations_by_name(name):
            if OURS in found.tags:  # else somebody else's, by the same name
                await client.delete_automation(found.id)
                yield Change(Difference.REMOVED, "automation", name)
