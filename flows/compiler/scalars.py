"""What a plain YAML scalar means under the 1.2 core schema. Knows nothing of documents.

PyYAML resolves by YAML 1.1, where `no` is false and `2024-01-01` a date; here both are the strings they look like.
"""

import math
import re

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL_OR_HEX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_MAX_DIGITS = 400
_STARTS_A_NUMBER = frozenset("+-.0123456789")

Scalar = str | int | float | bool | None


class NotANumber(ValueError):
    """The scalar reads as a number that JSON cannot carry."""


def resolve(text: str) -> Scalar:
    """The value of a plain scalar; raises NotANumber for infinity, NaN and numbers of absurd length."""
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if text[0] not in _STARTS_A_NUMBER:
        return text
    return _number(text)


def _number(text: str) -> Scalar:
    if _NOT_FINITE.fullmatch(text):
        raise NotANumber(text)
    if _INTEGER.fullmatch(text):
        return int(_of_sane_length(text))
    if _OCTAL_OR_HEX.fullmatch(text):
        return int(_of_sane_length(text), 0)
    if _FLOAT.fullmatch(text):
        return _finite(float(text), text)
    return text


def _of_sane_length(text: str) -> str:
    if len(text) > _MAX_DIGITS:
        raise NotANumber(text)
    return text


def _finite(number: float, text: str) -> float:
    if not math.isfinite(number):
        raise NotANumber(text)
    return number
