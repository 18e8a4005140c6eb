"""What must hold at rest, whatever died before: each query finds the rows that break its invariant."""

# Attempts that somebody still has to do something about: send, work for, or look for in Prefect.
UNSETTLED = """(state in ('ready', 'sending', 'sent', 'started')
    or (state = 'fenced' and flow_run_id is null and lease_until is not null and disposed_at is null))"""
# Rows that break an invariant; every query must find none at rest.
INVARIANTS = {
    "I1 no request is stuck": "select request_id from app.requests where status in ('pending', 'processing')",
    "I2 no request is there twice": """
        select fingerprint from app.requests where not is_internal
        group by fingerprint, asset_id having count(*) > 1""",
    "I3 one accepted commit a run": """
        select run_id from app.runs r where (
            select count(*) from app.attempts a where a.run_id = r.run_id and a.state = 'committed'
        ) <> (r.state = 'completed')::int
        or (select count(*) from app.events e where e.run_id = r.run_id and e.kind = 'run.completed'
        ) <> (r.state = 'completed')::int""",
    "I4 nothing is left to send, nothing sent is unlinked": f"""
        select run_id from app.attempts
        where {UNSETTLED} or (flow_run_id is null and (state <> 'fenced' or sent_at is not null))""",  # noqa: S608 - our own words
    "I5 ordinals follow acceptance": """
        select v.asset_id from app.asset_versions v join app.asset_versions w using (asset_id)
        where v.ordinal < w.ordinal and v.created_at > w.created_at""",
    "I5 ordinals and revisions have no gaps": """
        select asset_id from app.asset_versions v group by asset_id having max(ordinal) <> count(*) - 1
        union all select asset_id from app.revisions group by asset_id, ordinal having max(revision) <> count(*)""",
    "I5 what is approved and complete is served, and nothing else": """
        select asset_id from app.asset_versions v where served_revision is distinct from (
            select max(r.revision) from app.revisions r where (r.asset_id, r.ordinal) = (v.asset_id, v.ordinal)
            and r.approval = 'approved' and r.processing = 'completed')""",
    "I5 no late or fenced attempt has made what a revision holds": """
        select r.asset_id from app.revisions r join app.runs u using (request_id)
        left join app.attempts a on a.run_id = u.run_id and a.state = 'committed'
        where r.content_hash is distinct from encode(sha256(convert_to(a.token, 'UTF8')), 'hex')""",
    "I6 a request ends once, and once more where it was opened again": """
        select request_id from app.events
        where kind in ('request.completed', 'request.failed', 'request.cancelled', 'request.reopened')
        group by request_id
        having count(*) filter (where kind <> 'request.reopened') <> 1 + count(*) filter (
            where kind = 'request.reopened')""",
}
UNREST = f"""
    select 1 from app.requests where status in ('pending', 'processing')
    union all select 1 from app.attempts where {UNSETTLED} limit 1"""  # noqa: S608 - our own words
DEEDS = {
    "attempts again": "select count(*) from app.attempts where number > 1",
    "fenced attempts": "select count(*) from app.attempts where state = 'fenced'",
    "failures": "select count(*) from app.events where kind = 'run.failed'",
    "cancellations": "select count(*) from app.requests where status = 'cancelled'",
    "later versions": "select count(*) from app.asset_versions where ordinal > 0",
    "later revisions": "select count(*) from app.revisions where revision > 1",
    "approvals": "select count(*) from app.revisions where approval = 'approved'",
}
