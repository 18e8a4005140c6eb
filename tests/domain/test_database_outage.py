"""The database goes away under a service that holds connections to it."""

import asyncio

from tests.support.acts import submit
from tests.support.platform import Domain

END = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where application_name like 'cairn-domain%%' and datname = current_database()"
)


async def test_ended_connections_cost_one_refusal_and_nothing_that_was_accepted(domain: Domain) -> None:
    refs = [{"dataset_id": "elevation", "resource_id": f"dem-{number}"} for number in range(6)]
    accepted = await asyncio.gather(*(submit(domain, refs=one) for one in refs[:4]))
    assert {answer.status_code for answer in accepted} == {202}
    assert len(domain.rows(END)) >= 2
    refused = await submit(domain, refs=refs[4])
    assert (refused.status_code, refused.json()["code"]) == (503, "database-unavailable")
    assert refused.headers["Retry-After"] == "1"
    later = [await submit(domain, refs=one) for one in refs[4:]]
    assert [answer.status_code for answer in later] == [202, 202]
    assert domain.rows("select count(*) from app.requests") == [(6,)]
    assert domain.rows("select count(*) from app.assets") == [(6,)]
