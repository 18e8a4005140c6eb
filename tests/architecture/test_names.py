"""One class name is one idea's in the domain: whoever meets a name need not ask of which module it is."""

import ast
from collections import Counter
from pathlib import Path

DOMAIN = Path(__file__).resolve().parents[2] / "domain"


def test_no_two_classes_of_the_domain_share_a_name() -> None:
    trees = (ast.parse(file.read_text()) for file in DOMAIN.rglob("*.py"))
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert len(names) > 300
    assert [name for name, count in names.items() if count > 1] == []
