"""What a person does at the console, in a real browser."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright, expect

from tests.support.console import Assembly

PATIENCE_MS = 15_000
# WebGL by software, and pages' processes without a sandbox of their own where tests run as root.
FLAGS = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox", "--disable-dev-shm-usage"]
# Maps are drawn by WebGL, pages are not: a graphics card that is software takes more time for them than none.
FLAGS += ["--disable-gpu-compositing", "--disable-gpu-rasterization"]


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Debian's Chromium, driven by Playwright's library."""
    program = shutil.which("chromium")
    assert program, "chromium is not installed: `make setup-dev` installs it"
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield launched
        await launched.close()


@dataclass
class Visit:
    """One person's tab, and what went wrong in it."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    async def go(self, path: str) -> None:
        await self.page.goto(self.url + path)

    async def sign_in(self, client_id: str) -> None:
        """As a local user, by the form."""
        await self.go("/console/sign-in")
        await self.page.get_by_label("Name").fill(client_id)
        await self.page.get_by_label("Password or key").fill(f"secret-{client_id}")
        await self.page.get_by_role("button", name="Sign in").click()
        await expect(self.page.get_by_role("button", name="Sign out")).to_be_visible(timeout=PATIENCE_MS)

    async def map_drawn(self, name: str = "staged") -> bytes:
        """The picture of a map once it has all its tiles."""
        place = self.page.locator(f"#map-{name}[data-idle=yes]")
        await expect(place).to_be_attached(timeout=PATIENCE_MS)
        return await place.locator("canvas").first.screenshot()

    async def decide(self, button: str, confirm: str, *, choose: str | None = None, say: str | None = None) -> None:
        """Open a dialog, fill it in, confirm."""
        await self.page.get_by_role("button", name=button).click()
        dialog = self.page.get_by_role("dialog")
        if choose is not None:
            await dialog.get_by_label(choose).check()
        if say is not None:
            await dialog.get_by_role("textbox").fill(say)
        await dialog.get_by_role("button", name=confirm).click()
        await self.page.wait_for_load_state()

    async def shown(self, text: str) -> None:
        """The states at the top of a version's page say this, without anybody loading it again."""
        await expect(self.page.locator(".head")).to_contain_text(text, timeout=PATIENCE_MS)


@asynccontextmanager
async def visiting(browser: Browser, assembly: Assembly, client_id: str | None, **options: Any) -> AsyncIterator[Visit]:
    """A browser of its own for one person. Whatever it complains of fails the test."""
    settings: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}, "locale": "en-GB", "timezone_id": "UTC"}
    context = await browser.new_context(**(settings | options))
    try:
        visit = Visit(await context.new_page(), assembly.url)
        visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        visit.page.on("console", lambda message: _note(visit, message))
        if client_id is not None:
            await visit.sign_in(client_id)
        yield visit
    finally:
        await context.close()
    assert visit.complaints == []


def _note(visit: Visit, message: Any) -> None:
    """Errors that the browser tells of: blocked scripts and styles are among them, refused pages are not."""
    if message.type == "error" and "Failed to load resource" not in message.text:
        visit.complaints.append(message.text)


async def eventually(holds: Any, seconds: float) -> float:
    """How long it took until this held."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while not await holds():
        assert loop.time() - begun < seconds, f"not within {seconds} s"
        await asyncio.sleep(0.1)
    return loop.time() - begun


async def keep(visit: Visit, artifacts: Path | None, name: str) -> None:
    """A screenshot of the whole page, where somebody wants to look at it."""
    if artifacts is not None:
        await visit.page.screenshot(path=artifacts / f"{name}.png", full_page=True)
