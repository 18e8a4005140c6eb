"""Artifacts in Prefect: one of a title for each flow run, whatever answers are lost; cells in which nothing acts."""

import json
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

import httpx
import pytest
from prefect.client.orchestration import PrefectClient

from flows.prefect_engine.artifacts import ShownArtifact, quoted, table

RUN = UUID(int=7)


@dataclass
class Prefect:
    """A stand-in for Prefect's server that keeps artifacts, and loses answers on their way where it is told so."""

    lost: int = 0
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def request(self, method: str, path: str, json: Any, path_params: Any = None) -> httpx.Response:
        self.asked.append(f"{method} {path}")
        if path == "/artifacts/filter":
            wanted = json["artifacts"]["key"]["any_"]
            return httpx.Response(200, json=[one for one in self.kept.values() if one["key"] in wanted])
        if method == "POST":
            name = str(len(self.kept))
            self.kept[name] = {"id": name, **json}
            if self.lost:
                self.lost -= 1
                raise httpx.ReadTimeout("lost on its way")
            return httpx.Response(201, json=self.kept[name])
        self.kept[path_params["id"]] |= json
        return httpx.Response(204)


def shown(prefect: Prefect, *, is_new: bool = True) -> ShownArtifact:
    return ShownArtifact(cast("PrefectClient", prefect), RUN, "markdown", "run-1", is_new)


@pytest.mark.parametrize("lost", [0, 1])
async def test_artifact_shown_again_is_corrected_even_where_the_first_answer_was_lost(lost: int) -> None:
    prefect = Prefect(lost)
    card = shown(prefect)
    await card.show("early", "a card")
    await card.show("late", "a card")
    assert [one["data"] for one in prefect.kept.values()] == ["late"]


async def test_process_that_retries_a_flow_run_corrects_what_an_earlier_one_has_shown() -> None:
    prefect = Prefect()
    await shown(prefect).show("failed", "a card")
    await shown(prefect, is_new=False).show("completed", "a card")
    assert [one["data"] for one in prefect.kept.values()] == ["completed"]


async def test_first_show_of_a_new_flow_run_is_one_question() -> None:
    prefect = Prefect()
    await shown(prefect).show("done", "a card")
    assert prefect.asked == ["POST /artifacts/"]


def test_cells_are_code_that_nothing_leaves() -> None:
    assert quoted("a `b` <img src=x>\n![x](https://evil)") == "`a 'b' <img src=x> ![x](https://evil)`"
    assert quoted("") == ""
    assert json.loads(table([{"key": quoted("k")}])) == [{"key": "`k`"}]
