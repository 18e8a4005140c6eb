"""Reading text: values as YAML 1.2 means them, places, and every way in which a file may not be read."""

import time
from typing import Any

import pytest

from flows.compiler.faults import FilePosition
from flows.compiler.source import MAX_BYTES, read, read_bytes
from tests.flows.compiler.support import compiled


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("true", True),
        ("True", True),
        ("TRUE", True),
        ("false", False),
        ("tRUE", "tRUE"),
        ("null", None),
        ("~", None),
        ("", None),
        ("Null", None),
        ("nULL", "nULL"),
        ("12", 12),
        ("-5", -5),
        ("+7", 7),
        ("012", 12),
        ("0x1F", 31),
        ("0o17", 15),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("-1.5E-2", -0.015),
        (".", "."),
        ("1.2.3", "1.2.3"),
        ("2026-01-01", "2026-01-01"),
        ("12:30:45", "12:30:45"),
        ("+", "+"),
        ("-.e", "-.e"),
        ("1e", "1e"),
        ("'5'", "5"),
        ('"true"', "true"),
        ('"\\u00e9"', "é"),
        ("a b", "a b"),
        ("<<", "<<"),
        ("=", "="),
    ],
)
def test_scalars_mean_what_the_core_schema_says(written: str, value: Any) -> None:
    document = read(f"x: {written}\n", "f")
    assert document.faults == []
    assert document.value == {"x": value}
    assert type(document.value["x"]) is type(value)


def test_keys_are_kept_as_written() -> None:
    assert read("on: 1\n1: 2\nnull: 3\n'': 4\n<<: 5\n", "f").value == {"on": 1, "1": 2, "null": 3, "": 4, "<<": 5}


def test_places_are_those_of_keys_and_values_as_written() -> None:
    document = read("a: 1\nb:\n  - x\n  - {c: 'd'}\ne: |\n  text\nf:\n  g: 1\n", "f")
    assert document.keys[("b",)] == FilePosition(2, 1)
    assert document.values[("b",)] == FilePosition(3, 3)
    assert document.values[("b", 0)] == FilePosition(3, 5)
    assert document.keys[("b", 1, "c")] == FilePosition(4, 6)
    assert document.values[("b", 1, "c")] == FilePosition(4, 9)
    assert document.values[("e",)] == FilePosition(5, 4)
    assert document.values[("f",)] == FilePosition(8, 3)


def test_columns_count_characters() -> None:
    document = read('{😀: "ü", b: 1}', "f")
    assert document.keys[("b",)] == FilePosition(1, 10)


def test_pointer_of_a_fault_follows_rfc_6901() -> None:
    document = read("a/b:\n  c~d: [1, 2]\n", "f")
    fault = document.at_value(("a/b", "c~d", 1), "bad-value", "m", "h")
    assert (fault.pointer, fault.line, fault.column) == ("/a~1b/c~0d/1", 2, 12)
    assert document.at_value(("a/b", "gone", "deep"), "bad-value", "m").line == 2
    assert document.at_value(("gone",), "bad-value", "m").line == 1
    assert document.at_key((), "missing-field", "m").pointer == ""


def test_the_second_of_two_keys_is_reported_and_the_first_kept() -> None:
    document = read("a: {x: 1}\nb: 2\na: {y: {z: 1}}\n", "f")
    assert document.value == {"a": {"x": 1}, "b": 2}
    assert [(fault.code, fault.line, fault.column, fault.pointer) for fault in document.faults] == [
        ("duplicate-key", 3, 1, "/a")
    ]
    assert "line 1" in document.faults[0].message
    assert document.values[("a",)] == FilePosition(1, 4)
    assert ("a", "y") not in document.values


def test_unsafe_yaml_hides_earlier_faults() -> None:
    document = read("a: 1\na: &x 2\n", "f")
    assert [fault.code for fault in document.faults] == ["yaml-unsafe"]
    assert not document.readable


REFUSED = [
    ("a: [", "yaml-syntax", 2, 1),
    ("a: 'x", "yaml-syntax", 1, 6),
    ("a: b: c", "yaml-syntax", 1, 5),
    ("a:\n\t- b", "yaml-syntax", 2, 1),
    ("a: @b", "yaml-syntax", 1, 4),
    ("%FOO\n--- a", "yaml-syntax", 1, 5),
    ("---\na\n---\nb", "yaml-syntax", 3, 1),
    ("a: \x01b", "yaml-syntax", 1, 4),
    ("ok: 1\nb: \x00", "yaml-syntax", 2, 4),
    ("a: b\x0cc", "yaml-syntax", 1, 5),
    ("a: b\nc: \x1f", "yaml-syntax", 2, 4),
    ("a: \uffff", "yaml-syntax", 1, 4),
    ("a: \ud800", "yaml-syntax", 1, 4),
    ("a: {{ x }}", "yaml-syntax", 1, 4),
    ("a: {{ x }} > 3", "yaml-syntax", 1, 4),
    ("? [a]\n: b", "yaml-syntax", 1, 3),
    ("{[1]: 2}", "yaml-syntax", 1, 2),
    ("a: &x 3", "yaml-unsafe", 1, 4),
    ("a: *x", "yaml-unsafe", 1, 4),
    ("a: !x 3", "yaml-unsafe", 1, 4),
    ("a: !!python/object/apply:os.system [ls]", "yaml-unsafe", 1, 4),
    ("&a b: c", "yaml-unsafe", 1, 1),
    ("!!str b: c", "yaml-unsafe", 1, 1),
    ("*a : c", "yaml-unsafe", 1, 1),
    ("? &x [a]\n: b", "yaml-unsafe", 1, 3),
    ("[" * 21 + "]" * 21, "yaml-unsafe", 1, 21),
]


@pytest.mark.parametrize(("text", "code", "line", "column"), REFUSED, ids=lambda value: repr(value)[:24])
def test_unreadable_text_is_one_fault(text: str, code: str, line: int, column: int) -> None:
    (fault,) = compiled(text).faults
    assert (fault.code, fault.line, fault.column) == (code, line, column)
    assert fault.message


def test_twenty_levels_of_nesting_are_read() -> None:
    assert read("[" * 20 + "]" * 20, "f").readable


@pytest.mark.parametrize("number", [".inf", "-.Inf", ".NaN", "1e999", "9" * 401, "0x" + "F" * 400])
def test_number_beyond_json_is_a_fault_and_kept_as_text(number: str) -> None:
    document = read(f"x: {number}", "f")
    assert [(fault.code, fault.column) for fault in document.faults] == [("bad-value", 4)]
    assert document.value == {"x": number}
    assert document.readable


def test_bytes_are_utf_8_with_or_without_a_mark() -> None:
    assert read_bytes(b"\xef\xbb\xbfa: \xc3\xbc", "f").value == {"a": "ü"}
    (fault,) = read_bytes(b"a: 1\nb: \xff", "f").faults
    assert (fault.code, fault.line, fault.column) == ("yaml-syntax", 2, 4)
    assert not read_bytes(b"\xff", "f").readable


def test_large_files_are_refused_at_their_first_line() -> None:
    exact = "a: " + "x" * (MAX_BYTES - 3)
    assert read(exact, "f").readable
    for document in (read(exact + "x", "f"), read("é" * (MAX_BYTES // 2 + 1), "f"), read_bytes(b"\xff" * 300_000, "f")):
        assert [(fault.code, fault.line, fault.column) for fault in document.faults] == [("yaml-unsafe", 1, 1)]


ALIASES = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
_NODE = "workflow_id: test\nversion: 1\nnodes: {{start: {{type: start, next: a}}, a: {{handler: echo, {}}}}}\n"
HOSTILE = {
    "alias bomb": ALIASES,
    "5,000 lists": "[" * 5000 + "]" * 5000,
    "5,000 mappings": "{a: " * 5000 + "}" * 5000,
    "5,000 block levels": "".join(" " * n + "a:\n" for n in range(700)),
    "5,000 dashes": "- " * 5000 + "x",
    "10 MB": "a: b\n" * 2_000_000,
    "10 MB of brackets": "[" * 10_000_000,
    "python object": "a: !!python/object/new:os.system ['true']",
    "200 MB expression": "a: '{{ " + "1 + " * 50_000_000 + "1 }}'",
    "200 kB expression": _NODE.format("params: {x: '{{ " + "1 + " * 50_000 + "1 }}'}"),
    "200 kB condition": _NODE.format("when: '" + "1 + " * 50_000 + "1'"),
    "deep parentheses": _NODE.format("params: {x: '{{ " + "(" * 4000 + "1" + ")" * 4000 + " }}'}"),
    "attribute escape": _NODE.format("params: {x: \"{{ ''.__class__.__mro__[1].__subclasses__() }}\"}"),
    "200 kB of braces": _NODE.format("params: {x: '" + "{{" * 100_000 + "'}"),
    "long key": "x" * 200_000 + ": 1",
    "many questions": "? " * 60_000,
    "many anchors": "&a " * 60_000,
    "long tag": "!" + "x" * 200_000 + " a",
    "digits": "a: " + "9" * 250_000,
    "deep pointer": _NODE.format("params: {x: " + "{y: " * 17 + "1" + "}" * 17 + "}"),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_input_is_a_fault_at_once(text: str) -> None:
    taken = []
    for _ in range(3):  # the best of three, and of this process's own time: other work is not the compiler's
        started = time.process_time()
        compilation = compiled(text)
        taken.append(time.process_time() - started)
        assert compilation.faults
        assert compilation.plan is None
    assert min(taken) < 0.05
