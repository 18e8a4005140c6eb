"""Draws the rooms, what each holds and who knows what, from the tree itself: `python -m tests.support.rooms_map`.

What a part says of itself is the first sentence of its docstring; who knows what is read from the imports. Nothing is
kept by hand but where the rooms stand on the page.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from textwrap import wrap

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURE = REPOSITORY / "docs" / "rooms.svg"
ROOMS = ("gateway", "domain", "flows", "blocks", "deployments")
WIDTH, MARGIN, COLUMNS = 1200, 24, 2
LINE, LETTERS = 17, 78
INK, FAINT, PAPER, BAND, EDGE = "#1f2933", "#52606d", "#ffffff", "#f2f5f7", "#9fb3c8"
FONT = 'font-family="ui-sans-serif, system-ui, sans-serif"'


@dataclass(frozen=True)
class Part:
    """A module or package directly in a room."""

    name: str
    says: str
    modules: int

    @property
    def lines(self) -> list[str]:
        """What it says of itself, cut for its column."""
        return wrap(self.says, LETTERS)

    @property
    def height(self) -> int:
        return LINE * (1 + len(self.lines)) + 8


def first_sentence(file: Path) -> str:
    """How a module's docstring begins."""
    said = ast.get_docstring(ast.parse(file.read_text())) or ""
    line = " ".join(said.partition("\n\n")[0].split())
    return line.partition(". ")[0].rstrip(".")


def parts(room: str) -> list[Part]:
    """Packages first, then modules."""
    folder = REPOSITORY / room
    packages = [each for each in sorted(folder.iterdir()) if (each / "__init__.py").is_file()]
    found = [Part(f"{p.name}/", first_sentence(p / "__init__.py"), len(list(p.rglob("*.py"))) - 1) for p in packages]
    modules = (file for file in sorted(folder.glob("*.py")) if not file.name.startswith("__"))
    return found + [Part(file.name, first_sentence(file), 1) for file in modules]


def known() -> Mapping[tuple[str, str], list[str]]:
    """By room and room: which parts of the second the first imports."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for room in ROOMS:
        for file in (REPOSITORY / room).rglob("*.py"):
            for other, part in _imports(ast.parse(file.read_text())):
                if other != room:
                    found[room, other].add(part)
    return {pair: sorted(names) for pair, names in sorted(found.items())}


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        for room, part, *_ in (name.split(".") for name in names if "." in name):
            if room in ROOMS:
                yield room, part


def drawn() -> str:
    """The whole picture."""
    body, top = [], MARGIN
    knows = known()
    for room in ROOMS:
        block, top = _room(room, knows, top)
        body += block
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" {FONT} role="img" '
    head += 'aria-label="The rooms of Cairn, what they hold and what they know of each other">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{top}" fill="{PAPER}"/>', *body, "</svg>", ""])


def _room(room: str, knows: Mapping[tuple[str, str], list[str]], top: int) -> tuple[list[str], int]:
    """One room: its name, what it says, what it knows of others, and its parts in columns."""
    of_others = [f"{other}/ ({', '.join(names)})" for (who, other), names in knows.items() if who == room]
    told = wrap(f"Knows {'; '.join(of_others)}." if of_others else "Knows no other room.", 150)
    says = first_sentence(REPOSITORY / room / "__init__.py")
    heads = [_text(MARGIN + 16, top + 30, f"{room}/", 22, INK, "bold"), _text(MARGIN + 200, top + 29, says, 15, INK)]
    y = top + 54
    for line in told:
        heads.append(_text(MARGIN + 16, y, line, 13, FAINT))
        y += LINE
    columns, foot = _columns(parts(room), y + 14)
    frame = f'<rect x="{MARGIN}" y="{top}" width="{WIDTH - 2 * MARGIN}" height="{foot - top}" rx="8" '
    frame += f'fill="{BAND}" stroke="{EDGE}"/>'
    return [frame, *heads, *columns], foot + MARGIN


def _columns(held: list[Part], top: int) -> tuple[list[str], int]:
    """The parts in reading order, column by column, about equally high; and where the longest ends."""
    wanted = sum(part.height for part in held) / COLUMNS
    lines, lowest, x, y = [], top, MARGIN + 16, top
    for part in held:
        if y - top >= wanted:
            x, y = x + (WIDTH - 2 * MARGIN) // COLUMNS, top
        count = f"  · {part.modules} modules" if part.name.endswith("/") and part.modules > 1 else ""
        lines.append(_text(x, y + LINE, f"{part.name}{count}", 14, INK, "bold"))
        for number, line in enumerate(part.lines):
            lines.append(_text(x, y + LINE * (2 + number), line, 13, FAINT))
        y += part.height
        lowest = max(lowest, y)
    return lines, lowest + 12


def _text(x: int, y: int, words: str, size: int, colour: str, weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{colour}">{escape(words)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(drawn())
