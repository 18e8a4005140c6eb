"""Decides who may read what: the one rule behind every byte that is served. Pure."""

from dataclasses import dataclass
from typing import Literal

Role = Literal["partner", "reviewer", "operator", "admin", "worker", "gateway"]
Clearance = Literal["uncleared", "ouo", "public"]
Exposure = Literal["latest_only", "all_versions"]

PUBLIC: Clearance = "public"
ORDER: tuple[Clearance, ...] = ("uncleared", "ouo", PUBLIC)
STAFF: frozenset[Role] = frozenset({"reviewer", "operator", "admin"})
REVIEWERS: frozenset[Role] = frozenset({"reviewer", "admin"})
REVIEW_SCOPE = "review"


@dataclass(frozen=True)
class Identity:
    """Who asks. Partners belong to a platform; staff and services to none."""

    client_id: str
    role: Role
    platform_id: str | None = None
    scopes: frozenset[str] = frozenset()


def may_read(identity: Identity | None, clearance: Clearance, platform_id: str, approved: bool) -> bool:
    """True if this reader may have the product's bytes. To everyone else it does not exist."""
    if _is_staff(identity):
        return True  # staff preview what is not approved or cleared yet
    if not approved:
        return False
    match clearance:
        case "public":
            return True
        case "ouo":
            return _owns(identity, platform_id)
        case "uncleared":
            return False


def may_see_version(identity: Identity | None, exposure: Exposure, platform_id: str, is_latest: bool) -> bool:
    """True if this version is offered to the reader: an asset may expose its latest version only."""
    return is_latest or exposure == "all_versions" or _is_staff(identity) or _owns(identity, platform_id)


def may_have(
    identity: Identity | None,
    clearance: Clearance,
    exposure: Exposure,
    platform_id: str,
    *,
    approved: bool,
    is_latest: bool,
) -> bool:
    """True if this reader may have the product and is offered its version. Asked for nobody: whether it is public."""
    return may_read(identity, clearance, platform_id, approved) and may_see_version(
        identity, exposure, platform_id, is_latest
    )


def may_review(identity: Identity, platform_id: str | None) -> bool:
    """True if this person may decide about the platform's assets: a reviewer, or whom the partner named for it."""
    if identity.role in REVIEWERS:
        return True
    return REVIEW_SCOPE in identity.scopes and platform_id is not None and _owns(identity, platform_id)


def after_approval(current: Clearance, asked: Clearance) -> Clearance:
    """Return the higher clearance: an approval never lowers one that was given before."""
    return max(current, asked, key=ORDER.index)


def _is_staff(identity: Identity | None) -> bool:
    return identity is not None and identity.role in STAFF


def _owns(identity: Identity | None, platform_id: str) -> bool:
    return identity is not None and identity.role == "partner" and identity.platform_id == platform_id
