"""How facts are said on pages: sizes, times, states, events. Pure: values in, plain text out, for pages to escape."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from domain.rules.clearance import REVIEW_SCOPE, REVIEWERS

UNITS = ("bytes", "kB", "MB", "GB", "TB")
LABELS = {
    "pending_review": "awaits review",
    "not_ready": "not ready for review",
    "approved": "approved",
    "rejected": "rejected",
    "withdrawn": "withdrawn",
    "expired": "expired",
    "uncleared": "uncleared",
    "ouo": "official use only",
    "public": "public",
    "latest_only": "latest version only",
    "all_versions": "all versions",
}
# Which of the four colours a state has; every state says itself in words too.
TONES = {
    "good": {"approved", "completed", "delivered", "public", "green", "active", "counts"},
    "bad": {"rejected", "failed", "disabled", "revoked", "reject"},
    "busy": {"running", "processing", "sending", "retrying", "ready", "warn_and_fix", "ouo", "pending_review"},
}


def label(state: str) -> str:
    """A state's name in plain words."""
    return LABELS.get(state, state.replace("_", " "))


def tone(state: str) -> str:
    return next((name for name, states in TONES.items() if state in states), "calm")


def size(count: float | None) -> str:
    """Bytes, as people say them."""
    if count is None:
        return "unknown"
    value, unit = float(count), 0
    while value >= 1000 and unit < len(UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {UNITS[unit]}" if unit == 0 or value >= 100 else f"{value:.1f} {UNITS[unit]}"


def moment(at: datetime | None) -> str:
    """Write a time so that it means the same everywhere."""
    return "never" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def machine_time(at: datetime | None) -> str:
    """Write a time for programs, which may show it in the reader's own zone."""
    return "" if at is None else at.astimezone(UTC).isoformat()


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def reviews(client: Any) -> str:
    """Say whose versions a client may decide about."""
    if client.role in REVIEWERS:
        return "all platforms"
    return f"what others of {client.platform_id} sent" if REVIEW_SCOPE in client.scopes else "no"


def number(value: float | None) -> str:
    """A measured value, in as many digits as tell something."""
    return "" if value is None else f"{value:,.6g}"


def pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in values.items())


def pretty(value: Any) -> str:
    """Stored facts as they are, line by line."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def problem(told: Mapping[str, Any]) -> str:
    """A stored problem in its own words."""
    return str(told.get("detail") or told.get("message") or told.get("code") or "It failed.")


def event(kind: str, facts: Mapping[str, Any]) -> str:
    """Say what a line of the timeline tells."""
    if kind.startswith("node."):
        return _node(kind.removeprefix("node."), facts)
    actor = f" by {facts['actor']}" if facts.get("actor") else ""
    match kind:
        case "artifacts":
            return f"{facts['count']} × {label(facts['role'])} made, {size(facts.get('size_bytes'))}"
        case "callback.delivered" | "callback.failed":
            answer = facts.get("answer") or facts.get("error") or "no answer"
            return f"{label(kind.replace('.', ' '))}: “{facts.get('told')}”, {answer}"
        case "revision.pending_review":
            return f"revision awaits review again{actor}"
        case _ if kind.startswith("revision."):
            required = facts.get("approvals_required") or 1
            counted = f", {facts.get('approvals')} of {required} approvals" if required > 1 else ""
            return f"{label(kind.replace('.', ' '))}{actor}{counted}"
        case _:
            return f"{kind.replace('.', ' ').replace('_', ' ')}{actor}"


def remark(facts: Mapping[str, Any]) -> str:
    """Return what a person or program added to an event in words of its own."""
    said = [facts.get(name) for name in ("reason", "comment", "message", "problem")]
    return "; ".join(str(words) for words in said if words)


def _node(state: str, facts: Mapping[str, Any]) -> str:
    items, tries, node = facts.get("items") or {}, facts.get("tries") or 0, facts.get("node")
    if state == "ready" and tries:
        return f"{node} waits for try {tries + 1}"
    if state == "pending" and facts.get("before"):
        return f"{node} waits again, {label(facts['before'])} in attempt {facts.get('attempt')}"
    counted = f", {items.get('done') or 0} of {items['total']} items" if items.get("total") else ""
    again = f", {facts['retries']} tried again" if items.get("total") and facts.get("retries") else ""
    which = f", try {tries}" if tries > 1 else ""
    took = f" in {duration(float(facts['seconds']))}" if facts.get("seconds") is not None else ""
    return f"{node} {label(state)}{took}{counted}{again}{which}"


FILTERS: dict[str, Callable[..., str]] = {
    "label": label,
    "tone": tone,
    "size": size,
    "moment": moment,
    "machine_time": machine_time,
    "duration": duration,
    "number": number,
    "pairs": pairs,
    "pretty": pretty,
    "problem": problem,
    "reviews": reviews,
}
