"""What a whole stack was doing when a test on it failed: its services, the runs under way, how its logs end."""

import subprocess
from collections import deque
from pathlib import Path

import psycopg

from tests.support.stack import RunningStack

LOG_LINES = 25
LINE_LETTERS = 400
UNDER_WAY = """
    select r.run_id, r.workflow_id, r.state, r.reason,
           a.number, a.state, a.flow_run_id, a.created_at, a.sent_at, a.started_at
    from app.runs r left join app.attempts a using (run_id)
    where r.state in ('pending', 'running') order by r.run_id, a.number
"""


def account(stack: RunningStack) -> str:
    """Told for a reader of a test report; a stack that cannot answer is part of the account."""
    parts = [_status(stack), _under_way(stack)]
    parts += [f"== {log.name}\n{_tail(log)}" for log in sorted((stack.folder / "logs").glob("*.log"))]
    return "\n".join(parts)


def _status(stack: RunningStack) -> str:
    try:
        return stack.cairn("status", timeout=60).stdout
    except subprocess.TimeoutExpired:
        return "`cairn status` did not answer within a minute"


def _under_way(stack: RunningStack) -> str:
    try:
        rows = stack.rows(UNDER_WAY)
    except (psycopg.Error, OSError) as error:
        return f"the database does not tell which runs are under way: {error}"
    return "\n".join(["runs under way:", *(" ".join(map(str, row)) for row in rows)])


def _tail(log: Path) -> str:
    with log.open(errors="replace") as lines:
        return "\n".join(line.rstrip()[:LINE_LETTERS] for line in deque(lines, LOG_LINES))
