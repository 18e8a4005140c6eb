"""Templates and conditions: parsed once, read statically, evaluated over typed values. Knows nothing of nodes or runs.

A template that is exactly one `{{ expression }}` gives the expression's own value; any other gives text. Data is
never pasted into expression text and never parsed again.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from jinja2 import Template as JinjaTemplate
from jinja2 import TemplateError, TemplateSyntaxError, Undefined, nodes
from jinja2.parser import Parser

from flows.compiler.filters import MAX_ELEMENTS, bounded
from flows.compiler.references import Complaint, Finding, Reference, findings
from flows.compiler.sandbox import Sandbox

MAX_LENGTH = 10_000
Names = Mapping[str, Any]

_sandbox = Sandbox()
_PARSE_ERRORS = (TemplateSyntaxError, RecursionError, ValueError, OverflowError)
_EVALUATION_ERRORS = (
    *(TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError),
    *(SyntaxError, RecursionError),  # of compiling the expression, and of data that is nested too deeply
)
_DATA = (str, int, float, list, tuple, Mapping, type(None))


class ExpressionError(ValueError):
    """A template could not be rendered from the values it was given."""


@dataclass(frozen=True, eq=False)
class Expression:
    """One expression and its value over names."""

    tree: nodes.Expr

    @cached_property
    def _compiled(self) -> JinjaTemplate:
        body = nodes.Assign(nodes.Name("result", "store", lineno=1), self.tree, lineno=1)
        return _sandbox.from_string(nodes.Template([body], lineno=1))

    def value(self, names: Names) -> Any:
        template = self._compiled
        context = template.new_context(names)  # type: ignore[arg-type]
        list(template.root_render_func(context))  # a generator that renders nothing, and sets the result on its way
        return self._settled(context.vars["result"])

    def _settled(self, value: Any) -> Any:
        """The value as data: defined, finite, of bounded size where the expression made it."""
        if isinstance(value, Undefined):
            int(value)  # raises, and says what is missing
        if not isinstance(value, _DATA):
            raise TypeError("the result is not data")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("the result is not a finite number")
        if isinstance(self.tree, nodes.Name | nodes.Getattr | nodes.Getitem):
            return value
        if isinstance(value, str):
            bounded(len(value))
        return _plain(value)


def _plain(value: Any) -> Any:
    """Lists and mappings that an expression built, with tuples as lists and nothing undefined inside."""
    if isinstance(value, Undefined):
        int(value)
    if isinstance(value, list | tuple):
        bounded(len(value), MAX_ELEMENTS)
        return [_plain(element) for element in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(member) for key, member in value.items()}
    return value


@dataclass(frozen=True, eq=False)
class Template:
    """A parsed template: literal text and expressions in turn, what they read, and what is wrong with them."""

    source: str
    parts: tuple[str | Expression, ...] = ()
    references: tuple[Reference, ...] = ()
    complaints: tuple[Complaint, ...] = ()

    @property
    def expression(self) -> Expression | None:
        """The expression, where the template is exactly one; a newline after it, as a block scalar adds, is ignored."""
        if self.parts and isinstance(self.parts[0], Expression) and self.parts[1:] in ((), ("\n",)):
            return self.parts[0]
        return None

    def value(self, names: Names) -> Any:
        """The template's value over these names; raises ExpressionError with the template and the reason."""
        try:
            if self.complaints:
                raise ValueError(self.complaints[0].message)
            if self.expression:
                return self.expression.value(names)
            return self._text(names)
        except _EVALUATION_ERRORS as error:
            raise ExpressionError(f"{self.source[:200]!r}: {_reason(error)}") from None

    def _text(self, names: Names) -> str:
        pieces = [part if isinstance(part, str) else str(part.value(names)) for part in self.parts]
        bounded(sum(map(len, pieces)))
        return "".join(pieces)


def _reason(error: BaseException) -> str:
    told = error.message if isinstance(error, TemplateError) else str(error)
    return (told or type(error).__name__).replace("'end of print statement'", "'}}'").rstrip(".")


def is_template(text: str) -> bool:
    """Whether the text is anything but itself when rendered."""
    return "{{" in text or "{%" in text or "{#" in text


@lru_cache(maxsize=16_384)
def parse_template(source: str) -> Template:
    """Parse a template. Never raises: what is wrong is in its complaints."""
    if len(source) > MAX_LENGTH:
        return Template(source, complaints=(_too_long(source),))
    try:
        body = _sandbox.parse(source).body
    except _PARSE_ERRORS as error:
        return Template(source, complaints=(_syntax(error),))
    outputs = [child for statement in body if isinstance(statement, nodes.Output) for child in statement.nodes]
    if any(not isinstance(statement, nodes.Output) for statement in body):
        complaint = Complaint("template-syntax", "statements are not part of the language", "use {{ … if … else … }}")
        return Template(source, complaints=(complaint,))
    parts = tuple(node.data if isinstance(node, nodes.TemplateData) else Expression(node) for node in outputs)
    return _with_findings(source, parts, [finding for node in outputs for finding in findings(node)])


@lru_cache(maxsize=16_384)
def parse_condition(source: str) -> Template:
    """Parse a condition: one expression, in which `{{ }}` mean no more than parentheses."""
    if len(source) > MAX_LENGTH:
        return Template(source, complaints=(_of_condition(_too_long(source)),))
    try:
        tree = _whole_expression(_without_braces(source))
    except _PARSE_ERRORS as error:
        return Template(source, complaints=(_of_condition(_syntax(error)),))
    found = [_of_condition(finding) if isinstance(finding, Complaint) else finding for finding in findings(tree)]
    return _with_findings(source, (Expression(tree),), found)


def _of_condition(complaint: Complaint) -> Complaint:
    """Turn bad syntax of a template into a bad condition."""
    if complaint.code != "template-syntax":
        return complaint
    return Complaint("bad-condition", f"not an expression: {complaint.message}", _CONDITION_HINT)


_CONDITION_HINT = 'write one expression, such as "{{ nodes.a.output.size_mb }} > 100"'


def _with_findings(source: str, parts: tuple[str | Expression, ...], found: list[Finding]) -> Template:
    references = tuple(finding for finding in found if isinstance(finding, Reference))
    complaints = tuple(finding for finding in found if isinstance(finding, Complaint))
    return Template(source, parts, references, complaints)


def _whole_expression(text: str) -> nodes.Expr:
    parser = Parser(_sandbox, text, state="variable")
    tree = parser.parse_expression()
    if not parser.stream.eos:
        raise TemplateSyntaxError(f"nothing may follow the expression, found {parser.stream.current.value!r}", 1)
    tree.set_environment(_sandbox)
    return tree


def _without_braces(source: str) -> str:
    """The condition as one expression's text: each `{{ x }}` becomes `(x)`."""
    if not is_template(source):
        return source
    pieces = []
    for _, kind, text in _sandbox.lex(source):
        if kind == "data" and (text.count('"') % 2 or text.count("'") % 2):
            raise TemplateSyntaxError("a quote stands around {{ }}; values need none", 1)
        if kind.startswith(("block", "comment")):
            raise TemplateSyntaxError("statements and comments are not part of a condition", 1)
        pieces.append({"variable_begin": "(", "variable_end": ")"}.get(kind, text))
    return "".join(pieces)


def _syntax(error: BaseException) -> Complaint:
    told = "the expression is nested too deeply" if isinstance(error, RecursionError) else _reason(error)
    if isinstance(error, TemplateSyntaxError) and error.lineno > 1:
        told += f", in line {error.lineno} of this text"
    return Complaint("template-syntax", told, "a template is text with {{ expressions }} in it")


def _too_long(source: str) -> Complaint:
    return Complaint(
        "template-syntax", f"{len(source)} characters are more than the {MAX_LENGTH} of a template", "split it"
    )


def render(value: Any, names: Names) -> Any:
    """The JSON value with every template in it rendered. Literal text comes back as the same string."""
    if isinstance(value, str):
        return parse_template(value).value(names) if is_template(value) else value
    if isinstance(value, Mapping):
        return {key: render(member, names) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [render(element, names) for element in value]
    return value


def holds(condition: str, names: Names) -> bool:
    """Whether the condition is true over these names."""
    return bool(parse_condition(condition).value(names))
