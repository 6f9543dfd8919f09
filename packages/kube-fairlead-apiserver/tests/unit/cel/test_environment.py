from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from kube_fairlead_apiserver import cel
from kube_fairlead_apiserver.cel import budget, library, types, values

_DYNAMIC = cel.Environment({"x": types.DYN, "y": types.DYN})


def test_a_program_tells_its_type_and_the_variables_it_reads() -> None:
    environment = cel.Environment({"self": types.INT, "oldSelf": types.INT, "unused": types.STRING})
    program = environment.compile("self >= oldSelf")
    assert program.result_type == types.BOOL
    assert program.variables == {"self", "oldSelf"}
    assert program.evaluate({"self": 2, "oldSelf": 1}) is True
    assert program.evaluate({"self": 1, "oldSelf": 2}) is False


def test_extending_adds_variables_and_leaves_the_original_alone() -> None:
    base = cel.Environment({"a": types.INT})
    extended = base.extend({"b": types.INT})
    assert extended.compile("a + b").evaluate({"a": 1, "b": 2}) == 3
    with pytest.raises(cel.CompileError, match="undeclared reference to 'b'"):
        base.compile("b")


def test_an_unbound_variable_is_named() -> None:
    with pytest.raises(cel.EvaluationError, match=r"no such attribute\(s\): y"):
        _DYNAMIC.compile("x == y").evaluate({"x": 1})


def test_a_dotted_variable_hides_the_field_of_that_name() -> None:
    environment = cel.Environment({"a": types.DYN, "a.b": types.STRING})
    assert environment.compile("a.b").evaluate({"a": {"b": "field"}, "a.b": "variable"}) == "variable"
    assert environment.compile("a.c").evaluate({"a": {"c": "field"}, "a.b": "variable"}) == "field"


def test_results_are_plain_python() -> None:
    assert _DYNAMIC.compile("{true: [1]}").evaluate({}) == {True: [1]}
    assert _DYNAMIC.compile("optional.of({true: 1})").evaluate({}).value == {True: 1}
    first = _DYNAMIC.compile("[1, 2]").evaluate({})
    first.append(3)
    assert _DYNAMIC.compile("[1, 2]").evaluate({}) == [1, 2]


def test_a_mapping_may_compute_its_items_when_asked() -> None:
    asked: list[str] = []

    class Lazy(dict[str, Any]):
        def __missing__(self, key: str) -> Any:
            asked.append(key)
            self[key] = len(key)
            return self[key]

    variables = types.ObjectType(
        "variables", {"one": types.Field("one", types.INT), "two": types.Field("two", types.INT)}
    )
    program = cel.Environment({"variables": variables}).compile("variables.one == 3 || variables.two == 3")
    assert program.evaluate({"variables": Lazy()}) is True
    assert asked == ["one"]


def test_issues_carry_line_column_and_text() -> None:
    with pytest.raises(cel.CompileError) as caught:
        _DYNAMIC.compile("x == 1 &&\n  nope > 2 &&\n  'é' + 1 == y")
    assert [(issue.line, issue.column) for issue in caught.value.issues] == [(2, 3), (3, 7)]
    assert str(caught.value) == (
        "ERROR: <input>:2:3: undeclared reference to 'nope' (in container '')\n"
        " |   nope > 2 &&\n"
        " | ..^\n"
        "ERROR: <input>:3:7: found no matching overload for '_+_' applied to '(string, int)'\n"
        " |   'é' + 1 == y\n"
        " | ...．..^"  # noqa: RUF001 -- a wide mark stands below a wide character
    )


# Limits.

_NESTINGS: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: "(" * n + "1" + ")" * n,
    "lists": lambda n: "[" * n + "1" + "]" * n,
    "maps": lambda n: "{1: " * n + "1" + "}" * n,
    "calls": lambda n: "dyn(" * n + "x" + ")" * n,
    "methods": lambda n: "x" + ".size()" * n,
    "selections": lambda n: "x" + ".a" * n,
    "indexes": lambda n: "x" + "[0]" * n,
    "sums": lambda n: "1" + " + 1" * n,
    "conditionals": lambda n: "true ? 1 : " * n + "2",
    "loops": lambda n: "x.all(i, " * n + "true" + ")" * n,
    "optionals": lambda n: "optional.of(1)" + ".optMap(i, i)" * n,
    "conjunctions": lambda n: "(" * n + "true" + " && true)" * n,
}


@pytest.mark.parametrize("nesting", _NESTINGS)
@pytest.mark.parametrize("depth", [300, 5_000])
def test_deep_nesting_is_refused_not_fatal(nesting: str, depth: int) -> None:
    with pytest.raises(cel.CompileError, match="limit"):
        _DYNAMIC.compile(_NESTINGS[nesting](depth))


@pytest.mark.parametrize("nesting", _NESTINGS)
def test_reasonable_nesting_is_served(nesting: str) -> None:
    _DYNAMIC.compile(_NESTINGS[nesting](1 if nesting == "methods" else 60))


def test_long_chains_of_logic_are_not_nesting() -> None:
    assert _DYNAMIC.compile(" && ".join(["x == 1"] * 2_000)).evaluate({"x": 1}) is True


def test_a_huge_source_is_refused() -> None:
    with pytest.raises(cel.CompileError, match="expression code point size exceeds limit: size: 100001, limit 100000"):
        _DYNAMIC.compile("1" * 100_001)


def test_garbage_is_told_a_hundred_times_at_most() -> None:
    with pytest.raises(cel.CompileError) as caught:
        _DYNAMIC.compile("#" * 50_000)
    assert len(caught.value.issues) <= 102


@hypothesis.given(st.text(alphabet="()[]{}.,?:!-+*/%<>=&|'\"`\\ab1.5ur\n #é\U0001f600", max_size=40))
def test_any_text_compiles_or_is_refused(source: str) -> None:
    with contextlib.suppress(cel.CompileError):
        _DYNAMIC.compile(source)


# Cost.


def test_an_evaluation_costs_what_its_data_costs() -> None:
    program = _DYNAMIC.compile("x.all(i, i > 0)")
    small, large = budget.Budget(), budget.Budget()
    program.evaluate({"x": [1] * 10}, small)
    program.evaluate({"x": [1] * 1000}, large)
    assert budget.VALIDATION_COST_MAX - small.remaining == 1 + 10 * 5 + 1
    assert budget.VALIDATION_COST_MAX - large.remaining == 1 + 1000 * 5 + 1


def test_one_evaluation_stops_at_its_limit() -> None:
    with pytest.raises(cel.CostExceeded, match="operation cancelled: actual cost limit exceeded"):
        _DYNAMIC.compile("x.all(i, x.all(j, i + j >= 0))").evaluate({"x": list(range(2000))})


def test_a_group_of_evaluations_shares_its_budget() -> None:
    program = _DYNAMIC.compile("x.all(i, i >= 0)")
    allowance = budget.Budget(20_000)
    program.evaluate({"x": list(range(3000))}, allowance)
    assert not allowance.exhausted
    with pytest.raises(cel.CostExceeded):
        program.evaluate({"x": list(range(3000))}, allowance)
    assert allowance.exhausted


@pytest.mark.parametrize("expression", ["false && {0}", "true || {0}", "{0} && false", "x.exists(i, {0})"])
def test_spending_the_budget_is_never_absorbed(expression: str) -> None:
    endless = "y.all(i, y.all(j, y.all(k, true)))"
    program = _DYNAMIC.compile(expression.format(endless))
    bindings = {"x": [1], "y": list(range(500))}
    if expression.startswith(("false", "true")):
        assert program.evaluate(bindings) is not None  # the other term decides before it starts
    else:
        with pytest.raises(cel.CostExceeded):
            program.evaluate(bindings)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("x.distinct()", list(range(200_000))),
        ("x.sort()", list(range(200_000))),
        ("sets.contains(x, x)", list(range(200_000))),
        ("lists.range(x)", 9_000_000_000_000_000_000),
        ("x.split('').join('').split('').size()", "a" * 3_000_000),
        ("x.map(i, x).map(i, i + i + i).flatten().distinct()", list(range(1000))),
    ],
)
def test_expensive_work_is_refused_before_it_is_done(expression: str, value: object) -> None:
    with pytest.raises(cel.CostExceeded):
        _DYNAMIC.compile(expression).evaluate({"x": value})


# What Kubernetes charges (its own counter, dynamic variables); we may round up, never down by more than a unit.
@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("x", 1),
        ("m.a.b.c", 4),
        ("m['a']['b']", 3),
        ("has(m.a.b.c)", 3),
        ("x == 5", 2),
        ("s == long", 3),
        ("x + x", 3),
        ("t && t", 2),
        ("t || t", 1),
        ("l.all(i, i > 0)", 17),
        ("l.exists(i, i == 1)", 11),
        ("l.exists(i, i == 3)", 20),
        ("l.exists_one(i, i == 3)", 11),
        ("l.map(i, i + 1)", 44),
        ("l.filter(i, i > 1)", 34),
        ("l.transformMap(i, v, v)", 14),
        ("l.transformMapEntry(i, v, {v: i})", 104),
        ("[x, x]", 12),
        ("[1, 2, 3]", 0),
        ("{'a': x}", 31),
        ("'a' in m", 2),
        ("s.matches('^h.*$')", 3),
        ("l.distinct()", 30),
        ("l.reverse()", 15),
        ("sets.contains(l, [1])", 5),
        ("m.?a.hasValue()", 3),
        ("ip('1.1.1.1').family()", 2),
    ],
)
def test_costs_follow_kubernetes(expression: str, cost: int) -> None:
    bindings = {"x": 5, "s": "hello", "t": True, "l": [1, 2, 3], "m": {"a": {"b": {"c": 1}}}, "long": "hello " * 5}
    program = cel.Environment(dict.fromkeys(bindings, types.DYN)).compile(expression)
    allowance = budget.Budget()
    program.evaluate(bindings, allowance)
    assert cost <= budget.VALIDATION_COST_MAX - allowance.remaining <= cost + 3


# Beyond Kubernetes.


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("math.greatest(1, 2.5, 2u)", 2.5),
        ("math.least([3, 1, 2])", 1),
        ("math.abs(-5)", 5),
        ("math.round(2.5)", 3.0),
        ("math.round(-2.5)", -3.0),
        ("math.ceil(1.2)", 2.0),
        ("math.sign(-3)", -1),
        ("math.bitAnd(6, 3)", 2),
        ("'abc'.reverse()", "cba"),
        ("cel.bind(a, 2, cel.bind(b, a * 3, a + b))", 8),
    ],
)
def test_extended_libraries(expression: str, value: object) -> None:
    assert cel.Environment(libraries=library.EXTENDED).compile(expression).evaluate({}) == value
    with pytest.raises(cel.CompileError):
        cel.Environment().compile(expression)


def test_backtick_identifiers_are_an_option() -> None:
    environment = cel.Environment({"x": types.DYN}, backtick_identifiers=True)
    assert environment.compile("x.`my-field/a.b`").evaluate({"x": {"my-field/a.b": 1}}) == 1
    with pytest.raises(cel.CompileError, match="unsupported syntax: '`'"):
        _DYNAMIC.compile("x.`my-field`")


def test_json_stays_json() -> None:
    """Nothing is converted that an expression does not look at, and what it looks at is not changed."""
    data = {"spec": {"items": [{"n": 1}, {"n": 2}], "huge": object()}}
    assert _DYNAMIC.compile("x.spec.items.map(i, i.n)").evaluate({"x": data}) == [1, 2]
    assert values.plain(data["spec"]["items"]) == [{"n": 1}, {"n": 2}]


def test_a_list_that_is_made_by_an_addition_has_a_bound() -> None:
    program = _DYNAMIC.compile("(x + y).size()")
    assert program.evaluate({"x": [0] * 100_000, "y": [0] * 100_000}) == 200_000
    with pytest.raises(cel.EvaluationError, match="a list of more than 200000 elements"):
        program.evaluate({"x": [0] * 100_000, "y": [0] * 100_001})
