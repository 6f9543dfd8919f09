from __future__ import annotations

import pytest

from kube_fairlead_apiserver.cel import errors, lexer, library, macros, nodes, parser, values


def _shape(node: nodes.Expr) -> object:
    """A tree as nested tuples."""
    match node:
        case nodes.Literal():
            return node.value
        case nodes.Ident():
            return f"${node.name}"
        case nodes.Select():
            mark = "has" if node.test_only else "?." if node.optional else "."
            return (mark, _shape(node.operand), node.field)
        case nodes.Comprehension():
            return (node.fold.value, *map(_shape, nodes.children(node)))
        case nodes.Call():
            return (node.function, *map(_shape, node.operands))
        case _:
            return (type(node).__name__, *map(_shape, nodes.children(node)))


def _parse(source: str) -> nodes.Expr:
    return parser.parse(source, {**macros.STANDARD, **macros.TWO_VARIABLES, **macros.OPTIONAL})


@pytest.mark.parametrize(
    ("source", "shape"),
    [
        ("1 + 2 * 3", ("_+_", 1, ("_*_", 2, 3))),
        ("1 - 2 - 3", ("_-_", ("_-_", 1, 2), 3)),
        ("a || b && c", ("_||_", "$a", ("_&&_", "$b", "$c"))),
        ("a && b && c", ("_&&_", "$a", "$b", "$c")),
        ("a ? b : c ? d : e", ("_?_:_", "$a", "$b", ("_?_:_", "$c", "$d", "$e"))),
        ("a == b in c", ("@in", ("_==_", "$a", "$b"), "$c")),
        ("!a.b", ("!_", (".", "$a", "b"))),
        ("!!a", "$a"),
        ("-1", -1),
        ("--a", "$a"),
        ("-a[0].b", ("-_", (".", ("_[_]", "$a", 0), "b"))),
        ("a.?b[?c]", ("_[?_]", ("?.", "$a", "b"), "$c")),
        ("has(a.b)", ("has", "$a", "b")),
        ("a.b(c).d()", ("d", ("b", "$a", "$c"))),
        ("a.all(x, x > 1)", ("all", "$a", ("_>_", "$x", 1))),
        ("a.all(x, 1, 2, 3)", ("all", "$a", "$x", 1, 2, 3)),
        ("[1, ?a, ]", ("ListLiteral", 1, "$a")),
        ("{'k': 1, ?a: b}", ("MapLiteral", "k", 1, "$a", "$b")),
        (".a.b", (".", "$.a", "b")),
        ("a // comment\n + b", ("_+_", "$a", "$b")),
    ],
)
def test_sources_become_trees(source: str, shape: object) -> None:
    assert _shape(_parse(source)) == shape


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("0x1F", 31),
        ("18446744073709551615u", values.Uint(2**64 - 1)),
        ("-9223372036854775808", -(2**63)),
        (".5", 0.5),
        ("1e-3", 0.001),
        (r"'\a\b\f\n\r\t\v\\\'\"\`\?'", "\a\b\f\n\r\t\v\\'\"`?"),
        (r"'\x41\101\u00e9\U0001f600'", "AAé😀"),
        (r"r'\n'", r"\n"),
        ('"""a "quoted" word"""', 'a "quoted" word'),
        ("'''line\r\nbreak'''", "line\nbreak"),
        (r"b'\xff\377é'", b"\xff\xff\xc3\xa9"),
        ("B'x'", b"x"),
    ],
)
def test_literals_have_their_values(source: str, value: object) -> None:
    literal = _parse(source)
    assert isinstance(literal, nodes.Literal)
    assert (literal.value, type(literal.value)) == (value, type(value))


def test_positions_are_where_cel_go_puts_them() -> None:
    call = _parse("abc.def(1).ghi[2] + 3")
    assert call.offset == 18  # the operator
    index = nodes.children(call)[0]
    assert index.offset == 14  # the bracket
    select = nodes.children(index)[0]
    assert select.offset == 10  # the dot
    assert nodes.children(select)[0].offset == 7  # the parenthesis


def test_unknown_characters_are_skipped_and_told() -> None:
    issues = errors.IssueLog("a # b")
    assert [token.text for token in lexer.tokenize("a # b", issues)] == ["a", "b", lexer.END]
    assert [(issue.column, issue.text) for issue in issues.issues] == [
        (3, "Syntax error: token recognition error at: '#'")
    ]


def test_kubernetes_knows_every_macro() -> None:
    known = {name for each in library.KUBERNETES for name, _, _ in each.macros}
    assert known == {
        *("has", "all", "exists", "exists_one", "existsOne", "map", "filter"),
        *("transformList", "transformMap", "transformMapEntry", "optMap", "optFlatMap", "sortBy"),
    }
