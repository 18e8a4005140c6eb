"""One finding of the doctor: what was checked, how it is, and what to do about it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True)
class Finding:
    """`advice` says what to do; there is none where all is well."""

    check: str
    verdict: Verdict
    detail: str
    advice: str = ""


def ok(check: str, detail: str) -> Finding:
    return Finding(check, "ok", detail)


def warning(check: str, detail: str, advice: str) -> Finding:
    return Finding(check, "warning", detail, advice)


def wrong(check: str, detail: str, advice: str) -> Finding:
    return Finding(check, "wrong", detail, advice)


def summary(findings: Iterable[Finding]) -> dict[str, Any]:
    """Return the findings as JSON for programs."""
    found = list(findings)
    counted = {verdict: sum(one.verdict == verdict for one in found) for verdict in ("ok", "warning", "wrong")}
    return {"healthy": not counted["wrong"], "counts": counted, "checks": [asdict(one) for one in found]}
