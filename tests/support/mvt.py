"""Reads Mapbox vector tiles: numbers, attributes and shapes of the features, in the tile's own units."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Point = tuple[int, int]
POINT, LINE, POLYGON = 1, 2, 3
_MOVE, _CLOSE = 1, 7


@dataclass(frozen=True)
class Feature:
    id: int
    kind: int
    rings: list[list[Point]]
    """Of a polygon its rings, of lines each, of points all of them in one."""
    properties: dict[str, Any]

    @property
    def middle(self) -> tuple[float, float]:
        points = [point for ring in self.rings for point in ring]
        return sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)


def features(tile: bytes, layer: str = "default") -> list[Feature]:
    """The features of one layer; none where the tile has no such layer."""
    return [found for number, content in _fields(tile) if number == 3 for found in _layer(content, layer)]


def _layer(content: bytes, wanted: str) -> Iterator[Feature]:
    fields = list(_fields(content))
    if wanted not in [value.decode() for number, value in fields if number == 1]:
        return
    keys = [value.decode() for number, value in fields if number == 3]
    values = [_value(value) for number, value in fields if number == 4]
    for feature in (value for number, value in fields if number == 2):
        own = dict(_fields(feature))
        tags = _packed(own.get(2, b""))
        properties = {keys[key]: values[value] for key, value in zip(tags[::2], tags[1::2], strict=True)}
        yield Feature(own.get(1, 0), own.get(3, 0), list(_rings(_packed(own[4]))), properties)


def _rings(numbers: list[int]) -> Iterator[list[Point]]:
    x = y = at = 0
    ring: list[Point] = []
    while at < len(numbers):
        command, count = numbers[at] & 7, numbers[at] >> 3
        at += 1
        if command == _CLOSE:
            continue
        if command == _MOVE and ring:
            yield ring
            ring = []
        for _ in range(count):
            x, y, at = x + _signed(numbers[at]), y + _signed(numbers[at + 1]), at + 2
            ring.append((x, y))
    yield ring


def area(ring: list[Point]) -> float:
    """Above zero for the outside of a polygon."""
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)) / 2


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def _value(content: bytes) -> Any:
    ((number, value),) = _fields(content)
    match number:
        case 1:
            return value.decode()
        case 2:
            return struct.unpack("<f", value)[0]
        case 3:
            return struct.unpack("<d", value)[0]
        case 6:
            return _signed(value)
        case 7:
            return bool(value)
        case _:
            return value


def _packed(content: bytes) -> list[int]:
    numbers, at = list[int](), 0
    while at < len(content):
        number, at = _varint(content, at)
        numbers.append(number)
    return numbers


def _fields(content: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        if key & 7 == 0:
            value, at = _varint(content, at)
            yield key >> 3, value
            continue
        length, at = ({1: 8, 5: 4}[key & 7], at) if key & 7 in (1, 5) else _varint(content, at)
        yield key >> 3, content[at : at + length]
        at += length


def _varint(content: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
