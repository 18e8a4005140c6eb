"""Faults as people and tools read them: with the source line and a caret, as GitHub annotations, as JSON."""

import json
from collections.abc import Iterable, Mapping

from flows.compiler.faults import Fault

_LONGEST_LINE = 160


def as_text(fault: Fault, source: str) -> str:
    """The fault with the line it stands in, a caret under the place, and the hint."""
    told = f"{fault.file}:{fault.line}:{fault.column}: {fault.code}: {fault.message}"
    return "\n".join([told, *_excerpt(fault, source), *([f"  hint: {fault.hint}"] if fault.hint else [])])


def _excerpt(fault: Fault, source: str) -> list[str]:
    lines = source.split("\n")
    if fault.line > len(lines) or not lines[fault.line - 1].strip():
        return []
    line, column = _window(lines[fault.line - 1].rstrip("\r"), fault.column - 1)
    number = str(fault.line)
    # Tabs stay tabs under the caret, so that it stands right however wide they are shown.
    blank = "".join(character if character == "\t" else " " for character in line[:column])
    return [f"  {number} | {line}", f"  {' ' * len(number)} | {blank}^"]


def _window(line: str, column: int) -> tuple[str, int]:
    """The part of a long line around the column, and where the column is in it."""
    start = max(0, column - _LONGEST_LINE // 2) if len(line) > _LONGEST_LINE else 0
    return line[start : start + _LONGEST_LINE], column - start


def as_github(fault: Fault) -> str:
    """The fault as a GitHub workflow command, which annotates the line in a pull request."""
    place = f"file={_property(fault.file)},line={fault.line},col={fault.column},title={_property(fault.code)}"
    message = fault.message + (f"\n{fault.hint}" if fault.hint else "")
    return f"::error {place}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def report(faults: Iterable[Fault], sources: Mapping[str, str], style: str) -> str:
    """All faults in one of the styles `text`, `github`, `json`."""
    if style == "json":
        return json.dumps([fault.to_json() for fault in faults], ensure_ascii=False, indent=2)
    if style == "github":
        return "\n".join(map(as_github, faults))
    return "\n\n".join(as_text(fault, sources.get(fault.file, "")) for fault in faults)
