"""What the documentation promises is there."""

import re
from pathlib import Path

import pytest
import yaml
from pydantic_settings import BaseSettings

from deployments.cli import VERBS
from deployments.workers.host import HostSettings
from domain.settings import DomainSettings
from flows.handlers.adf.settings import AdfSettings
from flows.settings import DebugSettings, LoaderSettings, SourceSettings, TryLimits, WorkerSettings
from gateway.serving.settings import ServingSettings
from gateway.settings import GatewaySettings

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_of_the_docs_lead_to_existing_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)", page.read_text())
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert missing == []


SETTINGS = [
    DomainSettings, GatewaySettings, ServingSettings, WorkerSettings, TryLimits, SourceSettings, AdfSettings,
    LoaderSettings, DebugSettings, HostSettings,
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_setting_is_documented(settings: type[BaseSettings]) -> None:
    documented = (REPOSITORY / "docs/reference/settings.md").read_text()
    prefix = settings.model_config["env_prefix"]
    missing = [name for name in settings.model_fields if f"`{prefix}{name.upper()}`" not in documented]
    assert missing == []


def test_every_verb_that_the_readme_shows_exists() -> None:
    shown = set(re.findall(r"^cairn (\w+)", (REPOSITORY / "README.md").read_text(), re.MULTILINE))
    assert len(shown) >= 4
    assert shown <= VERBS.keys()


def test_every_make_target_is_explained() -> None:
    targets = re.findall(r"^([a-z-]+):(.*)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert {name for name, rest in targets if "  ## " not in rest} <= {"setup-dev"}
    assert {"help", "setup", "demo", "up", "down", "test", "check", "bench", "chaos", "clean"} <= {
        name for name, _ in targets
    }


def test_example_source_of_every_page_is_submittable() -> None:
    """Each platform has its folder of uploads: a name above them is nobody's."""
    named = {page.name: re.findall(r"\buploads/[\w.-]+(?![\w./-])", page.read_text()) for page in PAGES}
    assert {name: found for name, found in named.items() if found and name != "CHANGELOG.md"} == {}


@pytest.mark.parametrize(
    "form", sorted(REPOSITORY.glob(".github/ISSUE_TEMPLATE/[!c]*.yml")), ids=lambda form: form.stem
)
def test_issue_form_asks_few_questions_and_names_each_once(form: Path) -> None:
    """GitHub shows no form at all where one of these is missing."""
    read = yaml.safe_load(form.read_text())
    assert read["name"]
    assert read["description"]
    questions = [part for part in read["body"] if part["type"] != "markdown"]
    assert 1 <= len(questions) <= 5
    assert len({part["id"] for part in questions}) == len(questions)
    assert all(part["type"] == "textarea" and part["attributes"]["label"].endswith("?") for part in questions)
    assert set(re.findall(r"`cairn (\w+)", form.read_text())) <= VERBS.keys()
