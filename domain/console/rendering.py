"""Pages from templates. Every value is escaped; the headers let a page load nothing but ours and run nothing inline."""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from domain.console import words

HERE = Path(__file__).parent
STATIC = HERE / "static"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; worker-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


# What pages load that is not written here but copied from npm packages.
BUILT = ("htmx.min.js", "maplibre-gl.js", "maplibre-gl-worker.js", "maplibre-gl.css", "countries.json")


def unbuilt() -> list[str]:
    """Return the names of built files that are missing."""
    return [name for name in BUILT if not (STATIC / "vendor" / name).is_file()]


@lru_cache
def environment() -> Environment:
    """The templates, read when the first page is made."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= words.FILTERS
    made.globals["static"] = static_address
    return made


@lru_cache
def static_address(name: str) -> str:
    """Return a file's address, which changes with its content, so that browsers may keep it for good."""
    path = STATIC / name
    content = path.read_bytes() if path.is_file() else b""
    return f"/console/static/{name}?{hashlib.sha256(content).hexdigest()[:12]}"


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render one page, which only its signed-in reader sees and nobody caches."""
    html = environment().get_template(template).render(**values)
    return HTMLResponse(html, status, headers={"Cache-Control": "no-store"})
