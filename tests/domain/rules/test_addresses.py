"""Addresses that partners name: whatever leads inside is refused, however it is spelled."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules.addresses import AddressPolicy, RefusedAddress, is_public, judged, parse

STRICT = AddressPolicy()
ANY_PORT = AddressPolicy(ports=None)
DEVELOPMENT = AddressPolicy(https_only=False, ports=None, networks=(ipaddress.IPv4Network("127.0.0.0/8"),))

HOSTILE = [
    # not https
    "http://example.com/hook", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "//example.com/",
    "example.com/hook", "javascript:alert(1)", "https:example.com", "https:///hook", "https://", "", "https://?x",
    # credentials and confusion about where the host ends
    "https://user:pw@example.com/", "https://example.com@127.0.0.1/", "https://127.0.0.1@example.com/",
    "https://@example.com/", "https://example.com\\@127.0.0.1/", "https://example.com#@127.0.0.1/",
    "https://example.com /", "https://exam\tple.com/", "https://example.com\r\nHost: x/", "https://example.com/\x00",
    # loopback, written in every way that a resolver understands
    "https://localhost/", "https://LOCALHOST/", "https://localhost./", "https://a.localhost/", "https://127.0.0.1/",
    "https://127.1/", "https://127.0.1/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/",
    "https://0x7f.0.0.0x1/", "https://0177.0.0.1/", "https://017700000001/", "https://127.0.0.01/", "https://0/",
    "https://0.0.0.0/", "https://127.127.127.127/", "https://127.0.0.1./", "https://①②⑦.0.0.1/",
    "https://1.2.3.4.5/", "https://256.1.1.1/", "https://1.1.1.0x/",
    # private, link-local, shared, reserved
    "https://10.0.0.1/", "https://172.16.0.1/", "https://172.31.255.255/", "https://192.168.1.1/",
    "https://169.254.169.254/latest/meta-data/", "https://100.64.0.1/", "https://100.100.100.200/",
    "https://168.63.129.16/", "https://192.0.0.192/", "https://198.18.0.1/", "https://203.0.113.5/",
    "https://224.0.0.1/", "https://240.0.0.1/", "https://255.255.255.255/", "https://192.88.99.1/",
    # IPv6, and IPv4 inside it
    "https://[::1]/", "https://[::]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/",
    "https://[::ffff:8.8.8.8]/", "https://[::127.0.0.1]/", "https://[64:ff9b::7f00:1]/", "https://[64:ff9b:1::1]/",
    "https://[2002:7f00:1::]/", "https://[2001::1]/", "https://[2001:db8::1]/", "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/", "https://[2a00::1%25eth0]/", "https://[fc00::1]/", "https://[fd00:ec2::254]/",
    "https://[ff02::1]/", "https://[fec0::1]/", "https://[100::1]/", "https://[::1/", "https://::1/",
    # names of the inside
    "https://metadata/", "https://metadata.google.internal/", "https://printer.local/", "https://db.corp/",
    "https://router.home.arpa/", "https://-a.example.com/", "https://a_b.example.com/", "https://exämple.com/",
    "https://example..com/", "https://.example.com/", "https://example.com./", "https://%31%32%37.0.0.1/",
    "https://" + "a" * 64 + ".com/", "https://" + "a.b" * 100 + "/", "https://example.com/" + "a" * 2000,
    # ports
    "https://example.com:22/", "https://example.com:80/", "https://example.com:0/", "https://example.com:65536/",
    "https://example.com:-1/", "https://example.com:4 43/", "https://example.com:８443/",
]  # fmt: skip


@pytest.mark.parametrize("url", HOSTILE)
def test_address_that_leads_inside_is_refused(url: str) -> None:
    with pytest.raises(RefusedAddress):
        parse(url, STRICT)


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) >= 60


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "authority"),
    [
        ("https://example.com", "example.com", 443, "/", "example.com"),
        ("https://Example.COM:443/a/b?c=d", "example.com", 443, "/a/b?c=d", "example.com"),
        ("https://hooks.example.org:8443/x", "hooks.example.org", 8443, "/x", "hooks.example.org:8443"),
        ("https://8.8.8.8/", "8.8.8.8", 443, "/", "8.8.8.8"),
        ("https://[2A00:1450::1]/", "2a00:1450::1", 443, "/", "[2a00:1450::1]"),
        ("https://xn--exmple-cua.com/%20", "xn--exmple-cua.com", 443, "/%20", "xn--exmple-cua.com"),
        ("https://3com.com/", "3com.com", 443, "/", "3com.com"),
    ],
)
def test_public_address_is_split_into_host_port_and_path(
    url: str, host: str, port: int, path: str, authority: str
) -> None:
    target = parse(url, STRICT)
    assert (target.host, target.port, target.path, target.authority) == (host, port, path, authority)


def test_development_opens_only_loopback_addresses_that_are_listed() -> None:
    assert parse("http://127.0.0.1:9000/hook", DEVELOPMENT).port == 9000
    assert parse("http://localhost:9000/hook", DEVELOPMENT).host == "localhost"
    for closed in ("http://10.0.0.1/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://127.1/"):
        with pytest.raises(RefusedAddress):
            parse(closed, DEVELOPMENT)


@given(st.ip_addresses())
def test_a_public_address_is_public_to_python_too(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if is_public(address):
        assert address.is_global
        assert not address.is_multicast
        assert judged(address, STRICT) == address
    else:
        with pytest.raises(RefusedAddress):
            judged(address, STRICT)


@given(st.text(max_size=40), st.sampled_from(["https://", "https://example.com", "https://[", ""]))
def test_no_text_breaks_the_parser(text: str, start: str) -> None:
    try:
        target = parse(start + text, ANY_PORT)
    except RefusedAddress:
        return
    assert target.scheme == "https"
    assert target.path.startswith("/")
