"""Which addresses could be listened to on the way."""

import pytest

from domain.rules.transport import is_plain_database, is_plain_http


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("https://domain.example", False),
        ("http://domain.example", True),
        ("HTTP://domain.example:8001/", True),
        ("http://10.0.0.7:8001", True),
        ("http://localhost:8001", False),
        ("http://LOCALHOST.", False),
        ("http://127.0.0.1:8001", False),
        ("http://127.8.9.1", False),
        ("http://[::1]:8001", False),
        ("http://[fd00::1]", True),
        ("http://127.0.0.1.example.org", True),
        ("http://user@localhost:80@evil.example", True),
        ("http://mesh.internal", False),  # exempt below
        ("", False),
    ],
)
def test_plain_http_service_is_recognised(url: str, plain: bool) -> None:
    assert is_plain_http(url, {"mesh.internal"}) is plain


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("postgresql://u:p@db.example/cairn", True),
        ("postgresql://u:p@db.example/cairn?sslmode=prefer", True),
        ("postgresql://u:p@db.example/cairn?sslmode=disable", True),
        ("postgresql://u:p@db.example/cairn?sslmode=require&sslmode=disable", True),
        ("postgresql://u:p@db.example/cairn?sslmode=require", True),
        ("postgresql://u:p@db.example/cairn?sslmode=verify-ca", False),
        ("postgresql://u:p@db.example:6432/cairn?application_name=x&sslmode=verify-full", False),
        ("postgresql://u:p@127.0.0.1:5433/cairn", False),
        ("postgresql://u:p@[::1]:5433/cairn", False),
        ("postgresql:///cairn?host=/var/run/postgresql", False),
        ("postgresql:///cairn", False),
        ("postgresql:///cairn?host=db.example", True),
        ("postgresql://localhost/cairn?hostaddr=10.1.2.3", True),
        ("postgresql://u:p@127.0.0.1:1,db.example:2/cairn", True),
        ("postgresql://u:p@postgres/cairn", False),  # exempt below
        ("", False),
    ],
)
def test_plain_database_connection_is_recognised(url: str, plain: bool) -> None:
    assert is_plain_database(url, {"postgres"}) is plain
