"""Writes CSV so that no cell is a formula to the spreadsheet that opens it. No other module writes CSV. Pure.

Excel, LibreOffice and Google's take a cell for a formula that begins with one of a few characters, and a formula can
send what lies beside it elsewhere or start a program. Such a text is led by an apostrophe, which they take for "this is
text". Numbers are numbers: they stay as they are.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

# What spaces and what cannot be seen stand before it makes no difference; some read the wide forms alike.
_FORMULA: Final = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"
_UNSEEN: Final = r"[\s\x00-\x1f\x7f\u200b-\u200f\u2060\ufeff\"']*"
_BEGINS: Final = re.compile(rf"(?:[\t\r\n]|{_UNSEEN}{_FORMULA}|[\x00-\x08])")
# Where another list separator is usual, cells are cut within our quotes too: what follows would begin one.
_CUT: Final = re.compile(rf"([;\t\r\n|])({_UNSEEN})(?={_FORMULA})")
_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity|nan)", re.IGNORECASE
)
_LED_BY: Final = "'"


def cell(value: Any) -> Any:
    """Return the value as a cell that no spreadsheet takes for a formula."""
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    text = _CUT.sub(rf"\1\2{_LED_BY}", value)
    return f"{_LED_BY}{text}" if _BEGINS.match(text) else text


class _Line:
    """The file-like object to which the library's CSV writer writes a line."""

    def write(self, line: str) -> str:
        return line


def lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a header with the first row's names and a line for each row; no rows give no lines."""
    writer, names = csv.writer(_Line()), list[str]()
    for row in rows:
        if not names:
            names = list(row)
            yield _written(writer, names)
        yield _written(writer, [row.get(name) for name in names])


def _written(writer: Any, values: Sequence[Any]) -> str:
    line: str = writer.writerow([cell(value) for value in values])
    return line
