"""How a raster is drawn where nobody says otherwise: which bands, over which range of values. Pure.

The thumbnail, tiles, previews and the reviewers' map all ask here, so that they show the same. A band is a mapping of
what is known of it: `dtype`, `meaning` (the colour interpretation), `description` (its name), `minimum`, `maximum`,
`percentile_2`, `percentile_98`, `mean`, `stddev`, `valid_percent`. Nothing has to be known, and nothing is trusted.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Band = Mapping[str, Any]
Range = tuple[float, float]

COLOURS: Final = ("red", "green", "blue")
LOWEST_PERCENT, HIGHEST_PERCENT = 2, 98
# What a file says of bands of which it says nothing.
_UNTOLD: Final = frozenset({"gray", "undefined", "none", ""})
_USUAL_COUNTS: Final = (3, 4)  # red, green, blue, and often near infrared behind them
_NO_COLOUR: Final = frozenset({"edge", "rededge", "infra", "infrared", "near", "nir", "swir", "shortwave"})
_SENTINEL: Final = {"b04": "red", "b03": "green", "b02": "blue"}  # with the zero: Landsat's B4 is another colour
_LETTERS: Final = {"r": "red", "g": "green", "b": "blue"}
_WORD: Final = re.compile(r"[a-z0-9]+")
_NUMBERED: Final = re.compile(r"(b|band|layer|channel)?[ _-]?[0-9]+")
_LARGEST: Final = 8e307  # so that the difference of any two is a number
_DEVIATIONS: Final = 2.0  # about 2 and 98 % of what is spread evenly around its mean


@dataclass(frozen=True)
class Rendering:
    """The numbers of the bands that are drawn, one or three, counted from 1; and how their values become colours.

    Without a range, the values are colours already: a palette's, or bytes of light.
    """

    bands: tuple[int, ...]
    range: Range | None


def rendering_of(bands: Sequence[Band]) -> Rendering:
    """The rendering that every picture of this raster has by default."""
    shown = shown_bands(bands)
    return Rendering(shown, range_of(bands, shown))


def shown_bands(bands: Sequence[Band]) -> tuple[int, ...]:
    """Red, green and blue where names or the colour interpretation tell them; of three or four without, the first.

    Else the first band that is no transparency: three that were guessed would show colours that mean nothing.
    """
    data = [number for number, band in enumerate(bands, start=1) if _meaning(band) != "alpha"] or [1]
    if _meaning_at(bands, data[0]) == "palette":
        return (data[0],)
    for told in (_named_colour, _meaning):
        colours = {told(bands[number - 1]): number for number in reversed(data) if number <= len(bands)}
        if set(COLOURS) <= set(colours):
            return tuple(colours[colour] for colour in COLOURS)
    is_untold = all(_is_untold(bands[number - 1]) for number in data if number <= len(bands))
    return tuple(data[:3]) if len(data) in _USUAL_COUNTS and is_untold else (data[0],)


def range_of(bands: Sequence[Band], shown: Sequence[int]) -> Range | None:
    """Return one range for all drawn bands, so that their colours keep their proportions.

    None where their values are colours already, or where nothing is known of their values.
    """
    drawn = [
        bands[number - 1] for number in shown if 1 <= number <= len(bands) and _meaning_at(bands, number) != "alpha"
    ]
    if are_colours(bands, shown):
        return None
    ranges = [told for band in drawn if (told := stretch(band)) is not None]
    if not ranges:
        return None
    return usable(min(low for low, _ in ranges), max(high for _, high in ranges))


def are_colours(bands: Sequence[Band], shown: Sequence[int]) -> bool:
    """True where values are shown as they are: numbers of a palette, or bytes of which three make a colour."""
    drawn = [bands[number - 1] for number in shown if 1 <= number <= len(bands)]
    if any(_meaning(band) == "palette" for band in drawn):
        return True
    are_light = len(shown) > 1 or any(_meaning(band) in COLOURS for band in drawn)
    return are_light and bool(drawn) and all(band.get("dtype") == "uint8" for band in drawn)


def stretch(band: Band) -> Range | None:
    """The band's values from 2 to 98 %; a wider range where most values are one; None where none is known.

    Products that were made before percentiles were counted tell their mean and deviation instead.
    """
    if band.get("valid_percent") == 0:
        return None
    least, most = _number(band.get("minimum")), _number(band.get("maximum"))
    counted = _number(band.get("percentile_2")), _number(band.get("percentile_98"))
    for low, high in (counted, _about_mean(band, least, most), (least, most)):
        if low is not None and high is not None and low < high:
            return low, high
    known = next((value for value in (least, most, *counted) if value is not None), None)
    return None if known is None else (known, known)


def usable(low: float, high: float) -> Range:
    """Return a range that can be divided by, whatever the pixel type; a single value becomes a middle grey."""
    low, high = (max(-_LARGEST, min(value, _LARGEST)) for value in (low, high))
    if not low < high:
        beside = max(1.0, abs(low) / 1000)
        low, high = low - beside, high + beside
    return low, high


def is_blank(bands: Sequence[Band], shown: Sequence[int]) -> bool:
    """Whether it is known that no drawn band has a valid pixel."""
    drawn = [bands[number - 1] for number in shown if 1 <= number <= len(bands)]
    return bool(drawn) and all(band.get("valid_percent") == 0 for band in drawn)


def trouble(bands: Sequence[Band]) -> str | None:
    """Why the map of this raster shows nothing, as a sentence; None where it shows something or nothing is known."""
    if not bands:
        return None
    shown = shown_bands(bands)
    if is_blank(bands, shown):
        named = f"band {shown[0]}" if len(shown) == 1 else f"bands {shown[0]}, {shown[1]} and {shown[2]}"
        return f"The map is blank: it is drawn from {named}, where every pixel is nodata or transparent."
    return None


def percentile_of_parts(parts: Sequence[tuple[float, Band]], percent: float) -> float | None:
    """A percentile of what many parts hold together, each with its weight.

    Between its least value, its 2 %, its mean, its 98 % and its greatest, each part is taken to be spread evenly.
    """
    curves = [(weight, *_knots(band)) for weight, band in parts if weight > 0 and stretch(band) is not None]
    total = sum(weight for weight, _, _ in curves)
    if not total:
        return None
    places = sorted({value for _, values, _ in curves for value in values})

    def below(value: float) -> float:
        return sum(weight * _share_below(value, values, shares) for weight, values, shares in curves)

    wanted = total * percent / 100
    place = bisect_left(places, wanted, key=below)
    if place == 0 or place == len(places):
        return places[min(place, len(places) - 1)]
    low, high = places[place - 1], places[place]  # between two of these, the sum rises evenly
    at_low, at_high = below(low), below(math.nextafter(high, low))
    share = min(1.0, (wanted - at_low) / (at_high - at_low)) if at_high > at_low else 1.0
    return low * (1 - share) + high * share


def _knots(band: Band) -> tuple[list[float], list[float]]:
    """Values, rising, and what share of the band lies below each."""
    low, high = stretch(band) or (0.0, 0.0)
    least, most = _number(band.get("minimum")), _number(band.get("maximum"))
    mean = _number(band.get("mean"))
    middle = (low + high) / 2 if mean is None or not low < mean < high else mean
    values = [low if least is None else min(least, low), low, middle, high, high if most is None else max(most, high)]
    return values, [0.0, LOWEST_PERCENT / 100, 0.5, HIGHEST_PERCENT / 100, 1.0]


def _share_below(value: float, values: Sequence[float], shares: Sequence[float]) -> float:
    if value >= values[-1]:
        return 1.0
    for place in range(len(values) - 1):
        low, high = values[place], values[place + 1]
        if low <= value < high:
            return shares[place] + (shares[place + 1] - shares[place]) * ((value / 2 - low / 2) / (high / 2 - low / 2))
    return 0.0


def _about_mean(band: Band, least: float | None, most: float | None) -> tuple[float | None, float | None]:
    mean, deviation = _number(band.get("mean")), _number(band.get("stddev"))
    if mean is None or deviation is None or least is None or most is None:
        return None, None
    return max(least, mean - _DEVIATIONS * deviation), min(most, mean + _DEVIATIONS * deviation)


def _named_colour(band: Band) -> str | None:
    """Return the colour that the band's name states."""
    name = str(band.get("description") or "").strip().lower()
    words = set(_WORD.findall(name))
    if name in _LETTERS:
        return _LETTERS[name]
    if words & _NO_COLOUR:
        return None
    found = {colour for colour in COLOURS if colour in words} | {_SENTINEL[word] for word in words & _SENTINEL.keys()}
    return found.pop() if len(found) == 1 else None


def _is_untold(band: Band) -> bool:
    """Whether neither the name nor the interpretation says what the band is."""
    name = str(band.get("description") or "").strip().lower()
    return _meaning(band) in _UNTOLD and (not name or _NUMBERED.fullmatch(name) is not None)


def _meaning_at(bands: Sequence[Band], number: int) -> str:
    return _meaning(bands[number - 1]) if number <= len(bands) else ""


def _meaning(band: Band) -> str:
    return str(band.get("meaning") or "").lower()


def _number(value: object) -> float | None:
    """Return the value as a number that can be calculated with."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
