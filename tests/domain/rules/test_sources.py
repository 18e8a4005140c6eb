"""What a submission may name as its source: a blob, or an address of a host that operators listed."""

import pytest

from domain.rules.sources import RefusedSource, SourcePolicy, check, shared_folders, target_of
from tests.domain.rules.test_addresses import HOSTILE

FOLDERS = ("uploads/", "a/", "u/", "vsicurl/")
OPEN = SourcePolicy(hosts=frozenset({"data.example.org", "files.example.org"}), prefixes=FOLDERS)
CLOSED = SourcePolicy(prefixes=FOLDERS)

BLOBS = ["uploads/dem.tif", "a/b/c d/e+f=g@h.tif", "vsicurl/a.tif", "u/http.tif"]
NEVER = [
    "/vsicurl/https://data.example.org/a.tif", "/vsizip/vsicurl/a.zip", "/vsis3/b/a.tif", "/vsimem/a", "/vsistdin/",
    "vsicurl?url=https://data.example.org/a.tif", "/vsicurl?header_file=/etc/passwd&url=https://data.example.org/",
    "/etc/passwd", "/data/a.tif", "../a.tif", "a/../../b.tif", "a/./b", "a//b", "a\\..\\b", "C:\\a.tif", "C:/a.tif",
    "file:///etc/passwd", "FILE:/etc/passwd", "ftp://data.example.org/a", "s3://bucket/a", "gs://b/a", "az://c/a",
    "http://data.example.org/a.tif", "HTTP://data.example.org/a.tif", "vrt:///etc/passwd", "vrt://a.tif?bands=1",
    "GTIFF_DIR:1:a.tif", "GTIFF_RAW:a.tif", "NETCDF:a.nc:b", "MEM:::DATAPOINTER=1", "WMS:https://data.example.org/",
    "zip://a.zip!b.tif", "/vsisubfile/1_2,a.tif", "DERIVED_SUBDATASET:LOGAMPLITUDE:a.tif",
    '<VRTDataset rasterXSize="1"/>', '{"type":"gdal_streamed_alg"}', "a\0.tif", "a\n.tif",
    "ａ．．／b", "", " ", ".", "~/a",
]  # fmt: skip


@pytest.mark.parametrize("source", BLOBS)
@pytest.mark.parametrize("policy", [OPEN, CLOSED], ids=["open", "closed"])
def test_name_of_a_blob_is_accepted_as_source(source: str, policy: SourcePolicy) -> None:
    check(source, policy)


@pytest.mark.parametrize("source", NEVER)
@pytest.mark.parametrize("policy", [OPEN, CLOSED], ids=["open", "closed"])
def test_path_gdal_name_or_unknown_scheme_is_refused_as_source(source: str, policy: SourcePolicy) -> None:
    with pytest.raises(RefusedSource, match=r"\w{3}.*\."):
        check(source, policy)


FOREIGN = [
    "uploads/ddh2/a.tif", "uploads/ddh", "uploads/ddhx.tif", "uploads/arcgis/a.tif", "uploads/a.tif", "ddh/a.tif",
    "uploads/ddh/../arcgis/a.tif", "uploads/ddh/./../arcgis/a.tif", "uploads/ddh//../arcgis/a.tif",
    "uploads//ddh/a.tif",
    "uploads/ddh//a.tif", "uploads/ddh/", "uploads/ddh/..", "./uploads/ddh/a.tif", "/uploads/ddh/a.tif",
    "uploads/ddh/%2e%2e/arcgis/a.tif", "uploads%2fddh/a.tif", "uploads/ddh%2f..%2farcgis/a.tif", "uploads/ddh\\a.tif",
    "Uploads/ddh/a.tif", "uploads/DDH/a.tif", "UPLOADS/DDH/a.tif", "uploads/ddｈ/a.tif", "uploads/dd\u200bh/a.tif",
    "uploads／ddh/a.tif", "uploads/ddh/\u2025/a.tif", " uploads/ddh/a.tif", "uploads/ddh /a.tif",
]  # fmt: skip


@pytest.mark.parametrize("source", FOREIGN)
@pytest.mark.parametrize("prefix", ["uploads/ddh/", "uploads/ddh"])
def test_source_outside_its_platforms_folder_is_refused_however_spelt(source: str, prefix: str) -> None:
    policy = SourcePolicy(prefixes=(prefix,))
    check("uploads/ddh/a.tif", policy)
    check("uploads/ddh/b/c.tif", policy)
    with pytest.raises(RefusedSource):
        check(source, policy)


@pytest.mark.parametrize("source", [*BLOBS, "quarantine/a.tif"])
def test_platform_without_a_folder_submits_addresses_only(source: str) -> None:
    with pytest.raises(RefusedSource, match="has no folder that it may submit from"):
        check(source, SourcePolicy())
    check("https://data.example.org/a.tif", SourcePolicy(hosts=OPEN.hosts))


def test_an_address_needs_a_listed_host() -> None:
    check("https://data.example.org/a/b.tif?token=x", OPEN)
    assert target_of("https://data.example.org/a?b", OPEN).path == "/a?b"
    for source in ("https://data.example.org/a.tif", "https://example.org/a.tif"):
        with pytest.raises(RefusedSource, match="addresses are not fetched"):
            check(source, CLOSED)
    for host in ("example.org", "x.data.example.org", "data.example.org.evil.org", "1.1.1.1"):
        with pytest.raises(RefusedSource, match="not one of the hosts"):
            check(f"https://{host}/a.tif", OPEN)


@pytest.mark.parametrize("url", [url for url in HOSTILE if url != "example.com/hook"])  # a blob may be called so
def test_no_hostile_address_is_taken(url: str) -> None:
    with pytest.raises(RefusedSource):
        check(url, OPEN)


def test_a_refusal_never_repeats_what_may_be_a_secret() -> None:
    for url in ("https://evil.org/a?sig=canary", "https://data.example.org:99/a?sig=canary"):
        with pytest.raises(RefusedSource) as refusal:
            check(url, OPEN)
        assert "canary" not in str(refusal.value)


@pytest.mark.parametrize(
    ("others", "shared"),
    [
        ([], {}),
        (["uploads/arcgis/", "uploads/ddh-2/", "uploads/dd"], {}),  # folders, not the letters that they begin with
        (["uploads/ddh/"], {("arcgis", "ddh"): "uploads/ddh/"}),
        (["uploads/ddh"], {("arcgis", "ddh"): "uploads/ddh/"}),
        (["uploads/ddh/a/b/"], {("arcgis", "ddh"): "uploads/ddh/a/b/"}),
        (["uploads/"], {("arcgis", "ddh"): "uploads/ddh/"}),
    ],
)
def test_folders_shared_by_two_platforms_are_reported(others: list[str], shared: object) -> None:
    mine = ["uploads/ddh/", "uploads/ddh/own/"]  # what is within one's own is nobody else's
    assert shared_folders({"ddh": mine, "arcgis": others, "nobody": []}) == shared
