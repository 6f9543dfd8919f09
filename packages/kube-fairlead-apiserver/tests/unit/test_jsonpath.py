from __future__ import annotations

import contextlib
from typing import Any

import pytest

from kube_fairlead_apiserver.jsonpath import Budget, JsonPathError, compile_jsonpath, print_value

DATA = {
    "a": {"b": [1, 2, 3, 4], "c": "x", "n": None, "t": True},
    "l": [{"n": "a", "v": 1}, {"n": "b", "v": 2}, {"n": "c"}],
    "x.y": {"z": 5},
    "f": 1.5,
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}],
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.c", ["x"]),
        ("$.a.c", ["x"]),
        ("@.a.c", ["x"]),
        (".a['c']", ["x"]),
        (r".x\.y.z", [5]),
        (".a.b", [[1, 2, 3, 4]]),
        (".a.b[0]", [1]),
        (".a.b[-1]", [4]),
        (".a.b[1:3]", [2, 3]),
        (".a.b[:1]", [1]),
        (".a.b[-2:]", [3, 4]),
        (".a.b[0:4:2]", [1, 3]),
        (".a.b[1:1]", []),
        (".a.b[*]", [1, 2, 3, 4]),
        (".a.b[0,2]", [1, 3]),
        (".l[*].n", ["a", "b", "c"]),
        (".l[0]['n','v']", ["a", 1]),
        ('.l[?(@.n=="b")].v', [2]),
        (".l[?(@.n!='a')].n", ["b", "c"]),
        (".l[?(@.v>1)].n", ["b"]),
        (".l[?(@.v>=1)].n", ["a", "b"]),
        (".l[?(@.v<2)].n", ["a"]),
        (".l[?(@.v<=2)].n", ["a", "b"]),
        (".l[?(@.v)].n", ["a", "b"]),
        ('.conditions[?(@.type=="Ready")].status', ["True"]),
        ("..v", [1, 2]),
        (".l..n", ["a", "b", "c"]),
        (".a.*", [[1, 2, 3, 4], "x", None, True]),
        (".missing", []),
        (".missing.more[0]", []),
        (".a.n.x", []),
        ("'text'", ["text"]),
        ("1", [1]),
        ("1.5", [1.5]),
        ("true", [True]),
    ],
)
def test_a_path_finds_what_kubectl_finds(path: str, found: list[Any]) -> None:
    assert compile_jsonpath(path).find(DATA) == found


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (".a.b[9]", "array index out of bounds: index 9, length 4"),
        (".a.b[0:9]", "array index out of bounds: index 8, length 4"),
        (".a.b[3:1]", "starting index 3 is greater than ending index 1"),
        (".a.b[0:2:0]", "step must be > 0"),
        (".a.c[0]", "is not array or slice"),
        (".a[?(@.x)]", "is not array or slice and cannot be filtered"),
        (".l[?(@.v==1.0)]", "incompatible types for comparison"),
        (".l[?(@.n==true)]", "incompatible types for comparison"),
    ],
)
def test_a_path_that_does_not_fit_the_data_says_so(path: str, problem: str) -> None:
    with pytest.raises(JsonPathError, match=r".") as error:
        compile_jsonpath(path).find(DATA)
    assert str(error.value) == problem


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("....", "invalid multiple recursive descent"),
        ("a", "unrecognized identifier a"),
        (".a[", "unterminated array"),
        (".a[x]", "invalid array index x"),
        (".a[-]", "array index - is not a number"),
        ("[?(@.x", "unterminated filter"),
        ("[?(@.x)", "unclosed array expect ]"),
        ("[?(@.x===1)]", "unrecognized filter operator ==="),
        ("'x", "unterminated quoted string"),
        ("#", "unrecognized character in action: U+0023 '#'"),
        (".a}", "unclosed action"),
        ("+", "cannot parse number +"),
    ],
)
def test_a_path_that_cannot_be_read_says_so(path: str, problem: str) -> None:
    with pytest.raises(JsonPathError, match=r".") as error:
        compile_jsonpath(path)
    assert str(error.value) == problem


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (5, "5"),
        (True, "true"),
        (12345678.5, "1.23456785e+07"),
        (None, "<no value>"),
        ({"b": 1, "a": [2]}, '{"a":[2],"b":1}'),
    ],
)
def test_values_print_as_in_kubectl(value: Any, text: str) -> None:
    assert print_value(value) == text


class CountedObject(dict[str, Any]):
    """Counts how often a path descends into an object."""

    descents = 0

    def values(self) -> Any:
        CountedObject.descents += 1
        return super().values()


@pytest.mark.parametrize("path", ["..a" * 4, "..a..a[?(@..a..a)]", "[*,*]" * 20, "..*" * 4, ".*" * 9 + "..a" * 5])
def test_a_path_that_repeats_itself_ends_after_a_bounded_number_of_values(path: str) -> None:
    data: Any = "end"
    for _ in range(100):
        data = CountedObject(a=data)
    nested: Any = [1]
    for _ in range(20):
        nested = [nested]
    CountedObject.descents = 0
    with contextlib.suppress(JsonPathError):
        compile_jsonpath(path).find(nested if path.startswith("[") else data)
    assert CountedObject.descents < 100_000


def test_a_path_may_find_every_value_of_a_large_object() -> None:
    data = {"items": [{"n": [number]} for number in range(100_000)]}
    assert len(compile_jsonpath(".items[*].n[0]").find(data)) == 100_000
    assert len(compile_jsonpath("..n[*]").find(data)) == 100_000


def test_paths_of_one_row_share_a_budget() -> None:
    data: Any = "end"
    for _ in range(100):
        data = {"a": data}
    budget = Budget(data)
    path = compile_jsonpath("..a..a")
    assert path.find(data, budget)
    budget.spend(50_000)
    with pytest.raises(JsonPathError, match="finds too many values"):
        path.find(data, budget)
