"""The dashboard, the rules and the page speak of series that there are."""

import json
import re
from pathlib import Path

import pytest
import yaml

from domain.api.gauges import FIGURES, OF_POOLS
from domain.shared.metrics import METRICS_PATH
from gateway.serving.metrics import of_caches
from tests.support.cluster import TestDatabase
from tests.support.platform import running_platform

REPOSITORY = Path(__file__).resolve().parents[2]
WATCH = REPOSITORY / "deployments/watch"
PAGE = REPOSITORY / "docs/how-to/watch.md"
SERIES = re.compile(r"\bcairn_[a-z_]+")


@pytest.fixture
async def told(database: TestDatabase, tmp_path: Path) -> set[str]:
    """The names that services tell, read of services."""
    names: set[str] = set()
    async with running_platform(database, tmp_path) as platform:
        async with platform.as_(None) as anybody:
            await anybody.get("/livez")
        for client in (platform.as_("operator"), platform.domain.as_("operator")):
            async with client as operator:
                names |= set(SERIES.findall((await operator.get(METRICS_PATH)).text))
    assert {name for name, *_ in FIGURES} - {"cairn_pool_beacon_age_seconds"} <= names
    families = of_caches({})()
    return names | {f"{family.name}_total" for family in families} | {"cairn_pool_beacon_age_seconds"}


def known(told: set[str]) -> set[str]:
    of_pools = {f"cairn_pool_{name}" for name in OF_POOLS}
    return {re.sub("_(bucket|count|sum|created)$", "", name) for name in told} | told | of_pools


async def test_rules_and_dashboard_use_existing_series(told: set[str]) -> None:
    rules = yaml.safe_load((WATCH / "alerts.yaml").read_text())["groups"][0]["rules"]
    panels = json.loads((WATCH / "grafana.json").read_text())["panels"]
    asked = [rule["expr"] for rule in rules] + [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(rules) == 3
    assert len(asked) > 10
    for expression in asked:
        assert set(SERIES.findall(expression)) <= known(told), expression


async def test_metrics_page_explains_every_series(told: set[str]) -> None:
    explained = set(SERIES.findall(PAGE.read_text()))
    assert {re.sub("_(bucket|count|sum|created)$", "", name) for name in told} <= explained
    assert explained <= known(told)


def test_alert_rules_on_the_page_equal_those_of_the_file() -> None:
    [shown] = re.findall(r"```yaml\n(groups:.*?)```", PAGE.read_text(), re.DOTALL)
    assert yaml.safe_load(shown) == yaml.safe_load((WATCH / "alerts.yaml").read_text())
