"""Who may call what: every route of the domain, held against the application by test_audiences.

A new route is added here deliberately, or its test fails.
"""

EVERYBODY = frozenset({"partner", "reviewer", "operator", "admin", "worker", "gateway"})
STAFF = frozenset({"reviewer", "operator", "admin"})
OPERATORS = frozenset({"operator", "admin"})
ADMIN = frozenset({"admin"})
REVIEWERS = frozenset({"reviewer", "admin"})
WORKER = frozenset({"worker"})
GATEWAY = frozenset({"gateway"})
# Needs no credential at all.
OPEN: frozenset[str] = frozenset({"anonymous"})

AUDIENCES: dict[tuple[str, str], frozenset[str]] = {
    ("GET", "/livez"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/openapi.json"): OPEN,
    ("GET", "/metrics"): OPERATORS,
    ("POST", "/api/v1/submit"): GATEWAY,
    ("POST", "/api/v1/runs"): OPERATORS,
    ("POST", "/api/v1/runs/register"): WORKER,
    ("POST", "/api/v1/runs/{run_id}/start"): WORKER,
    ("POST", "/api/v1/runs/{run_id}/heartbeat"): WORKER,
    ("POST", "/api/v1/runs/{run_id}/commit"): WORKER,
    ("POST", "/api/v1/runs/{run_id}/fail"): WORKER,
    ("POST", "/api/v1/pools/{pool}/beacon"): WORKER,
    ("GET", "/api/v1/pools/{pool}/sent"): WORKER,
    ("GET", "/api/v1/runs/{run_id}"): STAFF,
    ("GET", "/api/v1/runs/{run_id}/nodes/{node}/items"): STAFF,
    ("GET", "/api/v1/runs"): STAFF,
    ("GET", "/api/v1/stats"): STAFF,
    ("GET", "/api/v1/workflows"): STAFF,
    ("GET", "/api/v1/workflows/{workflow_id}"): STAFF,
    ("GET", "/api/v1/requests/{request_id}"): STAFF,
    ("GET", "/api/v1/requests/{request_id}/timeline"): STAFF,
    ("POST", "/api/v1/assets/{asset_id}/versions/{ordinal}/approve"): REVIEWERS,
    ("POST", "/api/v1/assets/{asset_id}/versions/{ordinal}/reject"): REVIEWERS,
    ("POST", "/api/v1/requests/{request_id}/cancel"): OPERATORS | GATEWAY,
    ("POST", "/api/v1/runs/{run_id}/cancel"): OPERATORS,
    ("POST", "/api/v1/runs/{run_id}/rerun"): OPERATORS,
    ("POST", "/api/v1/requests/{request_id}/priority"): OPERATORS,
    ("POST", "/api/v1/pause"): OPERATORS,
    ("POST", "/api/v1/resume"): OPERATORS,
    ("PUT", "/api/v1/limits"): OPERATORS,
    ("GET", "/api/v1/settings"): STAFF,
    ("GET", "/api/v1/leftovers"): OPERATORS,
    ("GET", "/api/v1/leftovers/files"): OPERATORS,
    ("POST", "/api/v1/leftovers/files/remove"): OPERATORS,
    ("GET", "/api/v1/platforms"): STAFF,
    ("GET", "/api/v1/assets"): STAFF,
    ("GET", "/api/v1/assets/{asset_id}"): STAFF,
    ("GET", "/api/v1/versions"): STAFF,
    ("GET", "/api/v1/assets/{asset_id}/versions/{ordinal}"): STAFF,
    ("GET", "/api/v1/assets/{asset_id}/versions/{ordinal}/revisions"): STAFF,
    ("GET", "/api/v1/assets/{asset_id}/versions/{ordinal}/artifacts"): STAFF,
    ("POST", "/api/v1/assets/{asset_id}/versions/{ordinal}/unpublish"): REVIEWERS,
    ("POST", "/api/v1/assets/{asset_id}/versions/{ordinal}/withdraw"): REVIEWERS,
    ("GET", "/api/v1/assets/{asset_id}/versions/{ordinal}/approvals"): STAFF,
    ("GET", "/api/v1/assets/{asset_id}/metadata"): STAFF,
    ("GET", "/api/v1/platforms/{platform_id}"): STAFF,
    ("GET", "/api/v1/requests"): STAFF,
    ("GET", "/api/v1/status/lookup"): STAFF,
    ("PUT", "/api/v1/assets/{asset_id}/metadata"): REVIEWERS,
    ("POST", "/api/v1/assets/{asset_id}/clearance"): REVIEWERS,
    ("POST", "/api/v1/assets/{asset_id}/exposure"): REVIEWERS,
    ("DELETE", "/api/v1/assets/{asset_id}"): REVIEWERS,
    ("DELETE", "/api/v1/assets/{asset_id}/versions/{ordinal}"): REVIEWERS,
    ("GET", "/api/v1/audit"): OPERATORS,
    ("GET", "/api/v1/audit/verify"): OPERATORS,
    ("GET", "/api/v1/callbacks"): STAFF,
    ("GET", "/api/v1/callbacks/{callback_id}"): STAFF,
    ("POST", "/api/v1/callbacks/{callback_id}/replay"): OPERATORS,
    ("GET", "/api/v1/clients"): OPERATORS,
    ("POST", "/api/v1/clients"): OPERATORS,
    ("POST", "/api/v1/clients/{client_id}/rotate"): OPERATORS,
    ("PUT", "/api/v1/clients/{client_id}/sign-in"): OPERATORS,
    ("DELETE", "/api/v1/clients/{client_id}/sign-in"): OPERATORS,
    ("POST", "/api/v1/clients/{client_id}/revoke"): OPERATORS,
    ("POST", "/api/v1/clients/{client_id}/callback-secret"): OPERATORS,
    ("POST", "/api/v1/commands/{name}"): OPERATORS,
    ("GET", "/api/v1/bootstrap/status"): OPERATORS,
    ("GET", "/api/v1/bootstrap/tables"): OPERATORS,
    ("GET", "/api/v1/bootstrap/ddl"): OPERATORS,
    ("GET", "/api/v1/bootstrap/definitions"): OPERATORS,
    ("POST", "/api/v1/bootstrap/deploy"): OPERATORS,
    ("POST", "/api/v1/bootstrap/migrate"): ADMIN,
    ("POST", "/api/v1/bootstrap/rebuild"): ADMIN,
}

_ASSET, _VERSION = "/api/v1/assets/{asset_id}", "/api/v1/assets/{asset_id}/versions/{ordinal}"
# What somebody may do whom a partner has named to decide, about that partner's assets.
DECISIONS = {
    *(("POST", f"{_VERSION}/{verb}") for verb in ("approve", "reject", "unpublish", "withdraw")),
    ("POST", f"{_ASSET}/clearance"),
    ("DELETE", _ASSET),
    ("DELETE", _VERSION),
}
