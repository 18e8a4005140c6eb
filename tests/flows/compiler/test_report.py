"""Faults as they are shown: text with a caret, GitHub annotations, JSON."""

import json

from flows.compiler import Fault
from flows.compiler.faults import did_you_mean, excerpt, listing, nearest
from flows.compiler.report import as_github, as_text, report

SOURCE = "workflow_id: x\nnodes:\n  a:\n    handler: raster.validat\n"
FAULT = Fault(
    "w/x.yaml", 4, 14, "unknown-handler", "there is no handler 'raster.validat'", "/nodes/a/handler", "did you?"
)


def test_text_shows_the_line_and_a_caret() -> None:
    assert as_text(FAULT, SOURCE) == (
        "w/x.yaml:4:14: unknown-handler: there is no handler 'raster.validat'\n"
        "  4 |     handler: raster.validat\n"
        "    |              ^\n"
        "  hint: did you?"
    )


def test_text_of_a_fault_without_line_or_hint_is_short() -> None:
    bare = Fault("x", 9, 1, "no-end", "no end", "")
    assert as_text(bare, SOURCE) == "x:9:1: no-end: no end"
    assert as_text(Fault("x", 1, 1, "c", "m", ""), "\n") == "x:1:1: c: m"


def test_a_caret_stands_under_its_place_after_tabs_and_carriage_returns() -> None:
    assert as_text(Fault("x", 1, 3, "c", "m", ""), "\ta: b\r\n").split("\n")[1:] == ["  1 | \ta: b", "    | \t ^"]


def test_a_long_line_is_shown_around_its_place() -> None:
    line = "a" * 300 + "HERE" + "b" * 300
    _, shown, caret = as_text(Fault("x", 1, 301, "c", "m", ""), line).split("\n")
    assert len(shown) <= 160 + len("  1 | ")
    assert shown[caret.index("^") :].startswith("HERE")
    _, start, caret = as_text(Fault("x", 1, 1, "c", "m", ""), line).split("\n")
    assert (start[6], caret.index("^")) == ("a", 6)


def test_github_annotations_are_escaped() -> None:
    fault = Fault("a,b:c.yaml", 1, 2, "bad-value", "50% of\r\nit", "", "h")
    assert as_github(fault) == ("::error file=a%2Cb%3Ac.yaml,line=1,col=2,title=bad-value::50%25 of%0D%0Ait%0Ah")
    assert as_github(Fault("f", 1, 2, "c", "m", "")).endswith("::m")


def test_report_is_written_as_json_text_or_annotations() -> None:
    sources = {"w/x.yaml": SOURCE}
    assert json.loads(report([FAULT], sources, "json")) == [
        {
            "file": "w/x.yaml",
            "line": 4,
            "column": 14,
            "code": "unknown-handler",
            "pointer": "/nodes/a/handler",
            "message": "there is no handler 'raster.validat'",
            "hint": "did you?",
        }
    ]
    assert report([FAULT, FAULT], sources, "github").count("\n") == 1
    assert report([FAULT, FAULT], {}, "text").count("\n\n") == 1
    assert report([], {}, "json") == "[]"
    assert report([], {}, "text") == ""


def test_the_nearest_name_is_proposed() -> None:
    known = ["raster.validate", "raster.create_cog", "echo"]
    assert nearest("raster.validat", known) == "raster.validate"
    assert nearest("ECHO", known) == "echo"
    assert nearest("zzz", known) == ""
    assert did_you_mean("ecko", known) == "did you mean 'echo'?"
    assert did_you_mean("zzz", known, "otherwise") == "otherwise"
    assert did_you_mean("zzz", ["b", "a"]) == "known here: a, b"
    assert did_you_mean("zzz", []) == ""


def test_listings_and_excerpts_are_short() -> None:
    assert listing("cab") == "a, b, c"
    assert listing(map(str, range(10)), 2) == "0, 1, … (10 in all)"
    assert excerpt("a" * 100) == "'" + "a" * 59 + "…"
    assert excerpt("a\nb") == "'a\\nb'"
    assert excerpt(5) == "5"
