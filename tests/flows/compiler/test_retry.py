"""Retry policies: how many, how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.compiler import Retry
from flows.compiler.retry import merged


@pytest.mark.parametrize(
    ("written", "delays"),
    [
        ({}, (1, 2, 4)),
        ({"max_attempts": 0}, ()),
        ({"max_attempts": 10}, (1, 2, 4, 8, 16, 32, 64, 128, 256, 300)),
        ({"backoff": "fixed", "initial_delay_seconds": 5}, (5, 5, 5)),
        ({"backoff": "linear", "initial_delay_seconds": 2, "max_delay_seconds": 5}, (2, 4, 5)),
        ({"delays_seconds": [30, 120, 600, 3600]}, (30, 120, 600, 3600)),
        ({"delays_seconds": [1, 2], "max_attempts": 4}, (1, 2, 2, 2)),
        ({"delays_seconds": [1, 2, 3], "max_attempts": 1}, (1,)),
    ],
)
def test_delays_follow_from_the_written_policy(written: dict[str, object], delays: tuple[float, ...]) -> None:
    assert Retry.of(written).delays() == delays


def test_jitter_is_for_backoffs() -> None:
    assert Retry.of({}).jitter
    assert not Retry.of({"delays_seconds": [1]}).jitter
    assert Retry.of({"delays_seconds": [1], "jitter": True}).jitter
    assert not Retry.of({"jitter": False}).jitter


@pytest.mark.parametrize(
    ("defaults", "own", "result"),
    [
        ({"max_attempts": 2}, {}, {"max_attempts": 2}),
        ({"max_attempts": 2}, {"max_attempts": 5}, {"max_attempts": 5}),
        ({"initial_delay_seconds": 9}, {"max_attempts": 5}, {"initial_delay_seconds": 9, "max_attempts": 5}),
        ({"max_attempts": 2}, {"delays_seconds": [1, 2, 3]}, {"delays_seconds": [1, 2, 3]}),
        ({"delays_seconds": [9]}, {"backoff": "fixed"}, {"backoff": "fixed"}),
        ({"delays_seconds": [9]}, {"max_attempts": 2}, {"delays_seconds": [9], "max_attempts": 2}),
    ],
)
def test_a_node_overrides_its_workflow(
    defaults: dict[str, object], own: dict[str, object], result: dict[str, object]
) -> None:
    assert merged(defaults, own) == result


def test_a_policy_survives_json() -> None:
    policy = Retry.of({"delays_seconds": [1, 2], "max_attempts": 4})
    assert Retry.from_json(policy.to_json()) == policy


SECONDS = st.floats(min_value=0, max_value=86_400, allow_nan=False)
POLICIES = st.builds(
    Retry,
    max_attempts=st.integers(min_value=1, max_value=50),
    backoff=st.sampled_from(["fixed", "linear", "exponential"]),
    initial_delay_seconds=SECONDS,
    max_delay_seconds=SECONDS,
    jitter=st.booleans(),
)


@given(policy=POLICIES, chance=st.floats(min_value=0, max_value=1))
def test_every_wait_lies_between_half_its_delay_and_the_longest(policy: Retry, chance: float) -> None:
    for number, delay in enumerate(policy.delays()):
        wait = policy.wait(number, chance)
        assert delay / 2 <= wait <= delay <= policy.max_delay_seconds
        assert policy.jitter or wait == delay


def test_random_numbers_spread_the_waits() -> None:
    policy = Retry(max_delay_seconds=4)
    assert [policy.wait(2, chance) for chance in (0, 0.5, 1)] == [4, 3, 2]
