"""The core language against Google's own engine (C++): generated and fixed expressions mean the same to both."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from kube_fairlead_apiserver import cel
from kube_fairlead_apiserver.cel import library, types, values
from kube_fairlead_lab.testing import import_real

google = import_real("cel_expr_python.cel", remedy="its wheels are for Linux only")

_VARIABLES: dict[str, tuple[types.CelType, Any, Any]] = {
    "i": (types.INT, google.Type.INT, 7),
    "d": (types.DOUBLE, google.Type.DOUBLE, 2.5),
    "s": (types.STRING, google.Type.STRING, "héllo"),
    "b": (types.BOOL, google.Type.BOOL, True),
    "l": (types.list_of(types.INT), google.Type.List(google.Type.INT), [3, 1, 2]),
    "m": (types.map_of(types.STRING, types.INT), google.Type.Map(google.Type.STRING, google.Type.INT), {"a": 1}),
    "x": (types.DYN, google.Type.DYN, 5),
}
_BINDINGS = {name: value for name, (_, _, value) in _VARIABLES.items()}
_OURS = cel.Environment({name: ours for name, (ours, _, _) in _VARIABLES.items()}, libraries=library.STANDARD)
_THEIRS = google.NewEnv(variables={name: theirs for name, (_, theirs, _) in _VARIABLES.items()})
_FAILED = "no value"


def _our_value(expression: str) -> Any:
    try:
        return _comparable(_OURS.compile(expression).evaluate(_BINDINGS))
    except cel.EvaluationError:
        return _FAILED


def _their_value(expression: str) -> Any:
    result = _THEIRS.compile(expression).eval(data=_BINDINGS)
    if result.type() == google.Type.ERROR:
        return _FAILED
    return _comparable(result.plain_value())


def _comparable(value: Any) -> Any:
    match value:
        case values.Timestamp():
            return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=value.nanoseconds // 1000)
        case values.Duration():
            return dt.timedelta(microseconds=value.nanoseconds // 1000)
        case float() if math.isnan(value):
            return "NaN"
        case list():
            return [_comparable(element) for element in value]
        case dict():
            return {key: _comparable(item) for key, item in value.items()}
        case types.CelType() | google.Type():
            return "a type"
        case _:
            return value


# Well-typed expressions by kind: what stands alone, and what is built from others. <v:bool> may use the variable v.
_ATOMS = {
    "int": ["0", "1", "-1", "2", "10", "9223372036854775807", "-9223372036854775808", "i", "size(l)"],
    "double": ["0.0", "1.5", "-2.25", "1e10", "d"],
    "string": ["''", "'a'", "'héllo'", '"b"', "'10'", "r'\\d'", "s"],
    "bool": ["true", "false", "b"],
    # An empty literal has no element type, and the two checkers guess differently; the engines agree on the rest.
    "list": ["l.filter(n, false)", "[1]", "[1, 2, 3]", "l"],
}
_FORMS = {
    "int": [
        *(f"(<int> {operator} <int>)" for operator in "+-*/%"),
        *("-(<int>)", "size(<string>)", "<list>.size()", "<list>[<int>]", "int(<double>)", "m[<string>]"),
    ],
    # No division by zero here: cel-go and so Kubernetes refuse to order NaN, the oracle calls it unordered.
    "double": [*(f"(<double> {operator} <double>)" for operator in "+-*"), "(<double> / 2.0)", "double(<int>)"],
    "string": ["(<string> + <string>)", "string(<int>)", "string(<bool>)"],
    "list": ["(<list> + <list>)", "[<int>, <int>]", "<list>.map(v, <v:int>)", "<list>.filter(v, <v:bool>)"],
    "bool": [
        *("(<bool> && <bool>)", "(<bool> || <bool>)", "(<bool> && <bool> && <bool>)", "!(<bool>)"),
        *(f"(<{kind}> {operator} <{kind}>)" for kind in ("int", "string", "double") for operator in ("==", "<", ">=")),
        *("(<list> == <list>)", "(<int> in <list>)", "(<string> in m)", "has(m.a)"),
        *(f"<string>.{test}(<string>)" for test in ("startsWith", "endsWith", "contains")),
        *(f"<list>.{loop}(v, <v:bool>)" for loop in ("all", "exists", "exists_one")),
    ],
}
_HOLE = re.compile(r"<(?:(v):)?(\w+)>")


@st.composite
def _expressions(draw: st.DrawFn) -> str:
    def fill(kind: str, depth: int, *, in_loop: bool) -> str:
        atoms = [*_ATOMS[kind], "v"] if in_loop and kind == "int" else _ATOMS[kind]
        if depth == 0:
            return draw(st.sampled_from(atoms))
        form = draw(st.sampled_from([*_FORMS[kind], *atoms, f"(<bool> ? <{kind}> : <{kind}>)"]))
        return _HOLE.sub(lambda hole: fill(hole[2], depth - 1, in_loop=in_loop or bool(hole[1])), form)

    return fill(draw(st.sampled_from(sorted(_FORMS))), draw(st.integers(1, 4)), in_loop=False)


@hypothesis.settings(max_examples=300, deadline=None)
@hypothesis.given(_expressions())
def test_generated_expressions_mean_the_same(expression: str) -> None:
    assert _our_value(expression) == _their_value(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "1 + 2 * 3 - 4 / 2 % 3",
        "-7 / 2 == -3 && -7 % 2 == -1",
        "9223372036854775807 + 1",
        "1 / 0 == 1 || true",
        "1 / 0 == 1 && false",
        "1 / 0 == 1 || false",
        "[1, 2, 3].exists(n, 6 / (n - 1) == 6)",
        "[0, 1].all(n, 1 / n == 1)",
        "{'a': 1, 'b': 2}.b",
        "{'a': 1}.nope",
        "has({'a': 1}.a) && !has({'a': 1}.b)",
        "m.a + m['a']",
        "m.all(k, m[k] > 0)",
        "l.map(n, n * n)",
        "l.map(n, n > 1, n * 10)",
        "l.filter(n, n % 2 == 1)",
        "l.exists_one(n, n == 3)",
        "s.size()",
        "s.matches('^h.*o$')",
        "s + ' wörld'",
        "'\\u00e9' == 'é' && '\\x41' == 'A' && '\\101' == 'A'",
        "r'\\n'.size()",
        "b'\\xff\\000'",
        "b'a' + b'b' == b'ab'",
        "'''a\nb'''.size()",
        "0x1F + int(0x2u)",
        "5u - 3u",
        "3u - 5u",
        "18446744073709551615u + 1u",
        "x == 5u",
        "x == 5.0",
        "x == '5'",
        "type(x) == int",
        "timestamp('2023-07-14T10:30:45.123Z').getFullYear()",
        "timestamp('2023-07-14T10:30:45.123Z').getHours('America/Los_Angeles')",
        "timestamp('2023-07-14T10:30:45.123Z').getDayOfYear()",
        "timestamp('2023-01-01T00:00:00Z') + duration('36h')",
        "timestamp('2023-01-02T00:00:00Z') - timestamp('2023-01-01T00:00:00Z')",
        "timestamp('9999-12-31T23:59:59Z') + duration('1s')",
        "duration('1h30m') > duration('5000s')",
        "duration('3723s').getMinutes()",
        "int('42') + int(4.9) + int(timestamp('1970-01-01T00:01:00Z'))",
        "int('x')",
        "string(42) + string(true) + string(b'x')",
        "double('1e3') / 0.0",
        "0.0 / 0.0 == 0.0 / 0.0",
        "bool('true')",
        "uint(-1)",
        "b ? 'yes' : 'no'",
        "[[1], [2, 3]][1][0]",
        "[1, 2][5]",
        "{1: 'a', 2: 'b'}[2]",
        "{true: 1}[true]",
        "2 in [1, 2] && !(3 in [1, 2]) && 'a' in m",
        "!!b",
        "--5",
    ],
)
def test_fixed_expressions_mean_the_same(expression: str) -> None:
    assert _our_value(expression) == _their_value(expression)
