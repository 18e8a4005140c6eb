"""Which requests may change something, what a filter means, where a sign-in may lead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules.console import SHOWN, filter_of, is_token, place_within, refusal

HERE = {"host": "cairn.test", "origin": "https://cairn.test", "sec-fetch-site": "same-origin"}


@pytest.mark.parametrize(
    "headers",
    [
        HERE,
        {"host": "cairn.test", "sec-fetch-site": "same-origin"},
        {"host": "cairn.test", "origin": "http://cairn.test"},
    ],
)
def test_a_form_of_our_own_page_is_taken(headers: dict[str, str]) -> None:
    assert refusal("POST", headers) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": ""},
        {"origin": "https://evil.test"},
        {"origin": "https://cairn.test.evil.test"},
        {"origin": "https://cairn.test:8443"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://["},
        {"host": ""},
    ],
)
def test_changing_request_from_another_site_is_refused(changes: dict[str, str]) -> None:
    assert refusal("POST", HERE | changes)
    assert refusal("DELETE", HERE | changes)
    assert refusal("GET", HERE | changes) is None


def test_changing_request_without_origin_headers_is_refused() -> None:
    assert refusal("POST", {"host": "cairn.test"})


@given(st.text(max_size=40), st.text(max_size=40))
def test_form_token_matches_itself_alone(one: str, other: str) -> None:
    assert is_token(one, one)
    assert is_token(one, other) == (one == other)


def test_filter_ignores_senseless_parameters() -> None:
    assert filter_of({}).shown == "waiting"
    assert filter_of({"show": "everything", "type": "<b>"}) == filter_of({})
    assert [filter_of({"show": name}).shown for name in SHOWN] == list(SHOWN)
    assert filter_of({"q": " a\0b "}).words == "ab"


@pytest.mark.parametrize("address", ["/console", "/console/", "/console/versions/a/0", "/console/?show=all&q=a%20b"])
def test_a_sign_in_leads_back_to_a_page_of_the_console(address: str) -> None:
    assert place_within(address) == address


@pytest.mark.parametrize(
    "address",
    ["", "/", "//evil.test", "https://evil.test/console", "/consoles", "/console\\@evil.test", "javascript:fired(1)",
     "/console/\r\nSet-Cookie: a=b", "\t/console", "/tiles/a", "console"],
)  # fmt: skip
def test_a_sign_in_leads_nowhere_else(address: str) -> None:
    assert place_within(address) == "/console/"
