"""What images are made of, by the standard's own judge; and what is known of it, by a list of our own."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from deployments import audit, bill
from deployments.lock import EXTRAS, LOCKED, read


def test_bills_of_materials_fit_the_standard_and_name_every_package_with_its_licence(tmp_path: Path) -> None:
    bill.main([str(tmp_path)])
    judge = JsonStrictValidator(SchemaVersion.V1_6)
    assert {path.name for path in tmp_path.iterdir()} == {f"{image}.cdx.json" for image in EXTRAS}
    for image in EXTRAS:
        text = (tmp_path / f"{image}.cdx.json").read_text()
        assert judge.validate_str(text) is None
        named = {one["name"]: one for one in json.loads(text)["components"]}
        assert {name: one["version"] for name, one in named.items()} == {
            name: version for name, (version, _) in read(LOCKED / f"{image}.txt").items()
        }
        assert [name for name, one in named.items() if not one.get("licenses")] == []
    bill.main([str(tmp_path / "again")])
    assert (tmp_path / "again/gdal.cdx.json").read_bytes() == (tmp_path / "gdal.cdx.json").read_bytes()


class Advisories(BaseHTTPRequestHandler):
    """Answers as OSV does. It knows of one fault, in jinja2."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["package"]["name"]
        mended = {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.1"}]}
        affected = {"package": {"name": "jinja2", "ecosystem": "PyPI"}, "ranges": [mended]}
        words = {"id": "OSV-1", "summary": "", "details": "", "published": "2026-01-01T00:00:00Z", "aliases": []}
        fault = {**words, "affected": [affected]}
        body = json.dumps({"vulns": [fault]} if asked == "jinja2" else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_told: object) -> None: ...


@pytest.fixture
def advisories() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Advisories) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()


def test_audit_names_known_vulnerabilities_and_fails(advisories: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main(["--osv-url", advisories]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("jinja2 ")
    assert first.endswith(": OSV-1, mended in 99.1")
    packages = set[str]().union(*(read(LOCKED / f"{image}.txt") for image in EXTRAS))
    assert last == f"{len(packages)} packages, 1 known vulnerabilities."


def test_audit_without_a_reachable_list_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main(["--osv-url", "http://127.0.0.1:9/v1/query"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith("No list of vulnerabilities could be reached: nothing is known of the packages.\n")
