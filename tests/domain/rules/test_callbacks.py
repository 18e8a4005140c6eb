"""Callbacks by the rules: signatures against the standard's own verifier, the consequence of every answer."""

import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from domain.rules.callbacks import (
    MAX_BODY_BYTES,
    Again,
    Delivered,
    GivenUp,
    Gone,
    body,
    judge,
    retry_after_seconds,
    signature,
    webhook_id,
)
from domain.security import new_callback_secret
from domain.settings import DomainSettings

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
DELAYS = (5.0, 60.0)
SCHEDULE = DomainSettings.model_fields["callback_delays_seconds"].default


def test_the_standard_s_own_example_is_signed_as_printed_there() -> None:
    signed = signature(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_during_a_rotation_either_secret_verifies_and_no_other() -> None:
    new, old, foreign = (new_callback_secret() for _ in range(3))
    message_id, timestamp, content = webhook_id(uuid4()), int(datetime.now(UTC).timestamp()), b'{"a":1}'
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature([new, old], message_id, timestamp, content),
    }
    for secret in (new, old):
        assert Webhook(secret).verify(content, headers) == {"a": 1}
    for secret, sent, told in (
        (foreign, content, headers),
        (new, b'{"a":2}', headers),
        (new, content, headers | {"webhook-timestamp": str(timestamp - 1)}),
        (new, content, headers | {"webhook-id": "msg_other"}),
    ):
        with pytest.raises(Exception, match="No matching signature"):
            Webhook(secret).verify(sent, told)


@pytest.mark.parametrize("status", [None, *range(100, 600)])
@pytest.mark.parametrize("tries", [1, 2, 3])
def test_each_status_of_a_receiver_leads_to_delivery_retry_or_giving_up(status: int | None, tries: int) -> None:
    verdict = judge(status, tries, DELAYS, None, 0.0)
    if status in range(200, 300):
        assert verdict == Delivered()
    elif status == 410:
        assert verdict == Gone()
    elif tries > len(DELAYS):
        assert verdict == GivenUp()
    else:
        assert verdict == Again(DELAYS[tries - 1])


def test_the_schedule_makes_ten_tries_in_seventy_five_hours() -> None:
    waits = []
    for tries in range(1, 100):
        verdict = judge(503, tries, SCHEDULE, None, 0.0)
        if isinstance(verdict, GivenUp):
            break
        assert isinstance(verdict, Again)
        waits.append(verdict.seconds)
    assert len(waits) + 1 == 10
    assert timedelta(hours=75) <= timedelta(seconds=sum(waits)) <= timedelta(hours=76)


def test_a_receiver_may_ask_for_more_time_but_not_for_ever() -> None:
    assert judge(429, 1, DELAYS, 120.0, 0.9) == Again(120.0)
    assert judge(503, 1, DELAYS, 1.0, 0.0) == Again(5.0)
    assert judge(503, 1, DELAYS, 1e9, 0.0) == Again(86_400.0)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("Wed, 18 Nov 2026 12:01:00 GMT", 60.0),
        ("Wed, 18 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("9" * 400, None),
        ("", None),
    ],
)
def test_retry_after_is_read_in_both_forms(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, NOW) == seconds


DAYS = st.integers(-3, 40)
HUGE = st.integers(-(10**20), 10**20)
DATES = st.builds(
    "Mon, {:02d} {} {} {:02d}:{:02d}:{:02d} {}".format,
    DAYS,
    st.sampled_from(["Jan", "Feb", "Dec", "Foo", "1"]),
    st.sampled_from([0, 1, 68, 99, 1969, 2020, 9999, 10**6]) | HUGE,
    DAYS,
    st.integers(-1, 61),
    st.integers(-1, 61),
    HUGE.map("{:+d}".format) | st.sampled_from(["GMT", "-0000", "+2359", "-2359", "+2400", "EST", "", "Z"]),
)


@given(st.text(max_size=120) | DATES)
@example("Mon, 01 Jan 2020 00:00:00 +99999999999999999")
@example("Mon, 01 Jan 0001 00:00:00 +2359")
def test_any_retry_after_header_gives_seconds_or_nothing(header: str) -> None:
    seconds = retry_after_seconds(header, NOW)
    assert seconds is None or 0 <= seconds < float("inf")


@given(st.text(max_size=8000), st.text(max_size=200))
def test_a_body_stays_small_and_names_no_run(detail: str, code: str) -> None:
    problem = {"type": "about:blank", "title": "t", "status": 422, "code": code, "detail": detail, "run_id": "r"}
    content = body(uuid4(), "failed", "https://cairn.test/api/platform/status/1", problem)
    assert len(content) < MAX_BODY_BYTES
    told = json.loads(content)
    assert told.keys() == {"request_id", "status", "result_url", "problem"}
    assert "run_id" not in told["problem"]


def test_callback_body_leaves_out_a_problem_that_is_too_long() -> None:
    content = body(uuid4(), "failed", "https://cairn.test/api/platform/status/1", {"title": "t" * MAX_BODY_BYTES})
    assert len(content) < MAX_BODY_BYTES
    assert (json.loads(content)["status"], json.loads(content)["problem"]) == ("failed", None)
