"""Templates over typed values: what they give, what they refuse, and that nothing gets out of the sandbox."""

import time
from typing import Any

import pytest
from jinja2 import nodes

from flows.compiler.expressions import ExpressionError, holds, parse_condition, parse_template, render
from flows.compiler.references import Complaint, findings

NAMES: dict[str, Any] = {
    "inputs": {"n": 5, "s": "a{{ 1 }}b", "list": [3, 1, 2], "box": {"items": 7, "deep": {"er": [1, 2]}}, "none": None},
    "nodes": {"a": {"output": {"rows": [{"v": 2}, {"v": 1}]}, "status": "completed", "error": None}},
}


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ inputs.n }}", 5),
        ("{{ inputs.n }}\n", 5),
        ("{{inputs.list}}", [3, 1, 2]),
        ("{{ inputs.s }}", "a{{ 1 }}b"),
        ("n={{ inputs.n }}", "n=5"),
        ("{{ inputs.n }} ", "5 "),
        ("{{ inputs.n }}{{ inputs.n }}", "55"),
        ("{{ inputs.s }}!", "a{{ 1 }}b!"),
        ("no template", "no template"),
        ("{{ inputs.box['items'] }}", 7),
        ("{{ inputs.box.deep.er[-1] }}", 2),
        ("{{ inputs.list[1:] }}", [1, 2]),
        ("{{ inputs.s[0] }}", "a"),
        ("{{ inputs.none }}", None),
        ("{{ inputs.x | default(3) }}", 3),
        ("{{ inputs.x.y.z | default(none) }}", None),
        ("{{ inputs.x['y'][0] | default('d') }}", "d"),
        ("{{ nodes.b.output.c | default(nodes.a.output.rows[0].v) }}", 2),
        ("{{ '' | default('d') }}", ""),
        ("{{ '' | default('d', true) }}", "d"),
        ("{{ inputs.x is defined }}", False),
        ("{{ 'big' if inputs.n > 3 else 'small' }}", "big"),
        ("{{ inputs.n ~ '-' ~ inputs.n }}", "5-5"),
        ("{{ [inputs.n, (1, 2)] }}", [5, [1, 2]]),
        ("{{ {'a': inputs.n, 1: [2]} }}", {"a": 5, "1": [2]}),
        ("{{ inputs.n + 1 }}", 6),
        ("{{ [1] + [2] }}", [1, 2]),
        ("{{ 'ab' * 2 }}", "abab"),
        ("{{ 7 % 4 }}", 3),
        ("{{ 2 ** 10 }}", 1024),
        ("{{ 2 ** 0.5 > 1.4 }}", True),
        ("{{ inputs.n in inputs.list }}", False),
        ("{{ true and not false }}", True),
        ("{# nothing #}x", "x"),
        ("{{ inputs.list | length }}", 3),
        ("{{ '12' | int }}", 12),
        ("{{ 'x' | int(-1) }}", -1),
        ("{{ '1.5' | float }}", 1.5),
        ("{{ 'inf' | float }}", 0.0),
        ("{{ 'x' | float(2.0) }}", 2.0),
        ("{{ 2.567 | round(2) }}", 2.57),
        ("{{ 2.1 | round(0, 'ceil') }}", 3.0),
        ("{{ 2.9 | round(method='floor') }}", 2.0),
        ("{{ 'AbC' | lower }}{{ 'AbC' | upper }}", "abcABC"),
        ("{{ 'a-b-c' | replace('-', '+') }}", "a+b+c"),
        ("{{ inputs.list | join('/') }}", "3/1/2"),
        ("{{ nodes.a.output.rows | join(',', attribute='v') }}", "2,1"),
        ("{{ [] | join(',') }}", ""),
        ("{{ inputs.list | first }}{{ inputs.list | last }}", "32"),
        ("{{ {'ü': [1, none, true]} | tojson }}", '{"ü": [1, null, true]}'),
        ("{{ 'a/b/c.tif' | basename }}", "c.tif"),
        ("{{ 'a/b/c.tif' | dirname }}", "a/b"),
        ("{{ 'a/b/c.tif' | stem }}", "c"),
        ("{{ inputs.list | sort }}", [1, 2, 3]),
        ("{{ inputs.list | sort(reverse=true) }}", [3, 2, 1]),
        ("{{ (nodes.a.output.rows | sort(attribute='v'))[0].v }}", 1),
        ("{{ [1, 2, 1, [3], [3]] | unique }}", [1, 2, [3]]),
        ("{{ inputs.list | min }}{{ inputs.list | max }}", "13"),
        ("{{ (nodes.a.output.rows | max(attribute='v')).v }}", 2),
        ("{{ inputs.list | sum }}", 6),
        ("{{ nodes.a.output.rows | sum(attribute='v') }}", 3),
        ("{{ (-5) | abs }}", 5),
    ],
)
def test_template_renders_to_a_typed_value(template: str, value: Any) -> None:
    rendered = render(template, NAMES)
    assert rendered == value
    assert type(rendered) is type(value)


def test_values_are_rendered_inside_lists_and_mappings_and_keys_are_not() -> None:
    value = {"{{ x }}": ["{{ inputs.n }}", {"a": "n={{ inputs.n }}"}, 3, None], "t": ("{{ inputs.n }}",)}
    assert render(value, NAMES) == {"{{ x }}": [5, {"a": "n=5"}, 3, None], "t": [5]}


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ inputs.gone }}", "there is no value 'gone' here"),
        ("{{ gone }}", "'gone' is undefined"),
        ("{{ [inputs.gone] }}", "there is no value 'gone' here"),
        ("{{ {'a': {'b': inputs.gone}} }}", "there is no value 'gone' here"),
        ("{{ inputs.gone.further + 1 }}", "there is no value 'gone' here"),
        ("{{ inputs.gone | upper }}", "there is no value 'gone' here"),
        ("x{{ inputs.gone }}", "there is no value 'gone' here"),
        ("{{ 1 if inputs.n > 9 }}", "inline if-expression"),
        ("{{ inputs.n.real }}", "there is no value 'real' here"),
        ("{{ inputs.list['0'] }}", "there is no value '0' here"),
        ("{{ inputs.list[9] }}", "there is no value '9' here"),
        ("{{ inputs.box[0] }}", "there is no value '0' here"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ 'a' + 1 }}", "can only concatenate str"),
        ("{{ 'a' < 1 }}", "not supported between"),
        ("{{ '%s' % 1 }}", "text is not formatted with %"),
        ("{{ 1e308 * 10 }}", "not a finite number"),
        ("{{ [] | first }}", "out of range"),
        ("{{ 5 | length }}", "has no len"),
        ("{{ 5 | round(0, 'up') }}", "up"),
        ("{{ {'a': 1}[0:1] }}", "unhashable type"),
        ("{{ a", "unexpected end of template"),
        ("{% set a = 1 %}", "statements are not part of the language"),
    ],
)
def test_unrenderable_template_is_refused_with_the_reason(template: str, reason: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        render(template, NAMES)
    assert reason in str(caught.value)
    assert template[:20] in str(caught.value)


@pytest.mark.parametrize(
    ("condition", "holding"),
    [
        ("{{ inputs.n }} > 4", True),
        ("{{ inputs.n > 4 }}", True),
        ("inputs.n > 4", True),
        ("{{ inputs.n }} > {{ inputs.list[0] }} and {{ inputs.n }} < 5", False),
        ("{{ inputs.s }} == 'a{{ 1 }}b'".replace("{{ 1 }}", "x"), False),
        ("{{ inputs.s }} != ''", True),
        ("{{ 2 + 3 }} * 2 == 10", True),
        ("inputs.none", False),
        ("\n {{ inputs.n }}\n > 4 \n", True),
        ("true", True),
        ("false", False),
    ],
)
def test_a_condition_is_one_expression_over_typed_values(condition: str, holding: bool) -> None:
    assert holds(condition, NAMES) is holding


def test_data_is_never_read_as_part_of_a_condition() -> None:
    names = {"inputs": {"s": "x' or 'a' == 'a"}}
    assert not holds("{{ inputs.s }} == 'x'", names)


@pytest.mark.parametrize(
    "condition",
    [
        "",
        "1 +",
        "1 2",
        "{{ 1 }} {{ 2 }}",
        "'{{ inputs.s }}' == 'x'",
        "{{ 1",
        "{% if %}",
        "{# x #} 1",
        "x" * 10_001,
        "(" * 500,
    ],
)
def test_malformed_condition_is_refused_as_bad_condition(condition: str) -> None:
    (complaint,) = parse_condition(condition).complaints
    assert complaint.code == "bad-condition"
    with pytest.raises(ExpressionError):
        holds(condition, NAMES)


ESCAPES = [
    "{{ ''.__class__ }}",
    "{{ inputs.__class__.__mro__ }}",
    "{{ inputs['__class__'] }}",
    "{{ (inputs | first).__init__ }}",
    "{{ self }}",
    "{{ self._TemplateReference__context }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ lipsum.__globals__['os'] }}",
    "{{ joiner() }}",
    "{{ namespace() }}",
    "{{ dict(a=1) }}",
    "{{ range(9) }}",
    "{{ inputs | attr('__class__') }}",
    "{{ inputs | map('upper') }}",
    "{{ inputs.items() }}",
    "{{ inputs.pop('n') }}",
    "{{ inputs.update({'n': 1}) }}",
    "{{ [].append(1) }}",
    "{{ 'x'.format(1) }}",
    "{{ inputs.s.format_map(inputs) }}",
    "{{ x.y.mro() }}",
    "{% import 'os' as os %}",
    "{% include '/etc/passwd' %}",
    "{{ 5 is sameas(5) }}",
    "{{ inputs is callable }}",
    "{{ caller() }}",
    "{{ config }}",
    "{{ request.application }}",
    "{{ inputs.n.__add__(1) }}",
    "{{ 'abc'[::-1].__len__ }}",
]


@pytest.mark.parametrize("template", ESCAPES)
def test_template_cannot_escape_the_sandbox(template: str) -> None:
    before = dict(NAMES["inputs"])
    with pytest.raises(ExpressionError):
        render(template, NAMES)
    assert NAMES["inputs"] == before


BOMBS = [
    "{{ 'a' * 10000000000 }}",
    "{{ 10000000000 * 'a' }}",
    "{{ [0] * 10000000000 }}",
    "{{ 9 ** (9 ** 9) }}",
    "{{ 9 ** 999999999 }}",
    "{{ 2 ** 4000 * 2 ** 4000 }}",
    "{{ '%999999999d' % 1 }}",
    "{{ ('a' * 60000) | replace('a', 'b' * 60000) }}",
    "{{ ('a' * 60000) | replace('', 'b' * 60000) }}",
    "{{ (('a' * 60000) ~ ('a' * 60000)) }}",
    "{{ 'a' * 60000 }}{{ 'a' * 60000 }}",
    "{{ 'a' * 40000 + 'a' * 40000 }}",
    "{{ ([1] * 1000) | join('a' * 1000) }}",
    "{{ ([1] * 60000) | tojson }}",
    "{{ 'a' * 70000 | upper }}",
    "{{ 1.5 | round(999999999, 'ceil') ** 9999 }}",
    "{{ (1e300 | int) ** 1000 }}",
    "{{ " + "(" * 4000 + "1" + ")" * 4000 + " }}",
    "{{ " + "[" * 3000 + "]" * 3000 + " }}",
    "{{ " + "-" * 5000 + "1 }}",
    "{{ " + "not " * 2000 + "1 }}",
    "{{ " + "1+" * 3000 + "1 }}",
    "{{ a" + ".b" * 3000 + " }}",
    "{{ a" + "|abs" * 2000 + " }}",
    "{{ " + "9" * 9000 + " }}",
    "{{ '" + "x" * 200_000 + "' }}",
    "{{" * 3000,
]


@pytest.mark.parametrize("template", BOMBS, ids=lambda template: template[:30])
def test_expression_bomb_is_refused_in_bounded_time(template: str) -> None:
    started = time.process_time()
    with pytest.raises(ExpressionError):
        render(template, NAMES)
    assert time.process_time() - started < 1


def test_long_input_passes_unchanged_and_is_refused_when_extended() -> None:
    names = {"inputs": {"s": "x" * 200_000}}
    assert render("{{ inputs.s }}", names) == names["inputs"]["s"]
    with pytest.raises(ExpressionError, match="more than 65536"):
        render("{{ inputs.s }}!", names)


def test_references_are_found_without_evaluating() -> None:
    template = parse_template("{{ nodes.a.output.rows[0]['v'] + (inputs.x | default(run.id)) }} {{ item[index].z }}")
    assert [str(reference) for reference in template.references] == [
        "nodes.a.output.rows[0].v",
        "inputs.x",
        "run.id",
        "item",
        "index",
    ]
    assert [reference.guarded for reference in template.references] == [False, True, False, False, False]


@pytest.mark.parametrize(
    ("template", "guarded"),
    [
        ("{{ a.b | default(1) }}", True),
        ("{{ (a.b if c else 2) | default(1) }}", True),
        ("{{ (1 if a.b else 2) | default(1) }}", False),
        ("{{ (a.b + 1) | default(1) }}", False),
        ("{{ 1 | default(a.b) }}", False),
        ("{{ a.b is defined }}", True),
        ("{{ a.b is undefined }}", True),
        ("{{ a.b is none }}", False),
        ("{{ a.b[0:1] | default(1) }}", True),
        ("{{ (a.b | upper) | default(1) }}", False),
    ],
)
def test_default_covers_a_missing_path_only(template: str, guarded: bool) -> None:
    covered = {str(reference): reference.guarded for reference in parse_template(template).references}
    assert covered["a.b"] is guarded


def test_parsed_template_is_cached() -> None:
    assert parse_template("{{ inputs.n }}") is parse_template("{{ inputs.n }}")


def test_a_part_of_jinja_that_the_language_does_not_know_is_refused() -> None:
    (complaint,) = findings(nodes.MarkSafe(nodes.Const(1)))
    assert isinstance(complaint, Complaint)
    assert complaint.code == "template-syntax"
