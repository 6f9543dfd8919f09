"""YAML bodies: what kube-apiserver makes of them, by thousands of generated scalars and many whole documents.

Each is put into a custom resource that keeps whatever it is given, and what the server makes of it is compared with
what `kube_fairlead.api.yamltext` reads: so on real Kubernetes the reader is judged, and on the embedded server its use.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from kube_fairlead.api.yamltext.parser import Reading, YamlError
from kube_fairlead_lab.testing.rawhttp import RawApi

_GROUP = "yaml.example.com"
_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"things.{_GROUP}"},
    "spec": {
        "group": _GROUP,
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
_TAGS = ("", "!!int ", "!!float ", "!!bool ", "!!null ", "!!str ", "!!timestamp ", "!!binary ", "!other ", "! ")
_LINES = (
    "y Y yes Yes YES yEs n No true True TRUE tRUE on Off OFF ~ null Null nULL .nan .NaN .inf -.Inf +.inf 0 -0 +1 007",
    "0777 08 0o7 0O17 0o8 0x1F -0x1 0xg 0b1 -0b11 0b+1 0b2 0b 0x + . .5 .5e3 -.5 5. 5.e1 1e3 1E+3 1e 1e400 1e-400 1.5",
    "1_000 1__0 _1 -_1 0_x1F .7_3 1:1 1:1:1 190:20:30 -1:1 2001-01-01 2001-1-1 2001-02-30 2001-12-14t21:59:43.10-05:00",
    "9223372036854775807 -9223372036854775809 1.0 -0.0 << = 0.1 1e6 0x1p3 inf NaN aGk= 1.2.3 +.nan",
)
_WORDS = tuple(word for line in _LINES for word in line.split())
_DRY = {"dryRun": "All"}
_DOCUMENTS = (
    "a: 1\nb: 2",
    "a: 1\n",
    "<<: {a: 1}",
    "<<: {a: 1}\na: 2",
    "a: 2\n<<: {a: 1}",
    "<<: [{a: 1, b: 2}, {a: 3, c: 4}]",
    "<<: 1",
    "<<: [1]",
    '"<<": {a: 1}',
    "!!merge <<: {a: 1}",
    "a: {b: 1, b: 2}",
    "1: a\n1.5: b\nyes: c",
    "~: 1",
    "? [a]\n: 1",
    "? {a: 1}\n: 1",
    "18446744073709551615: 1",
    "16777217.0: 1",
    "a: &x {b: 1}\nc: *x",
    "a: &x {b: 1}\nc: {<<: *x, d: 2}",
    "a: &x [*x]",
    "a: *x",
    "a: !!set {b, c}",
    "a: !!python/object:x {}",
    "a: !!null {b: 1}",
    "a: |\n  x\n   y\nb: >-\n  x\n  y\n\n  z",
    "a: 'it''s'\nb: \"\\u00e4\\x41\"",
    'a: "\\ud800"',
    "a: [1,,2]",
    "a: [,]",
    "a: {b, c: }",
    "a: [b: c, d]",
    "a: @b",
    "a: `b",
    "a:\tb",
    "a: b: c",
    "a: [",
    "a: 1 #c\nb: 1#c",
    "a: {b:1}",
    'a: {"b":1}',
)


@pytest.fixture
async def path(api: RawApi, namespace: str) -> str:
    """Where the custom resources are."""
    made = await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _DEFINITION)
    made.expect(201, 409)
    path = f"/apis/{_GROUP}/v1/namespaces/{namespace}/things"
    await api.poll(path, lambda answer: answer.code == 200)
    return path


def in_object(document: str) -> str:
    lines = "".join(f"  {line}\n" for line in document.split("\n"))
    return f"apiVersion: {_GROUP}/v1\nkind: Thing\nmetadata: {{name: a}}\nspec:\n{lines}"


async def disagreements(api: RawApi, path: str, documents: list[str]) -> list[str]:
    """The documents of which the server makes something else than the reader does."""
    found = []
    for document in documents:
        body = in_object(document).encode()
        answer = await api.request("POST", path, body, content_type="application/yaml", params=_DRY)
        ours = read(body)
        theirs: Any = answer.json.get("spec") if answer.code == 201 else answer.code
        if ours != theirs or not same_types(ours, theirs):
            found.append(f"{document!r}: the server says {theirs!r}, the reader {ours!r}")
    return found


def read(body: bytes) -> Any:
    try:
        reading = Reading(body)
        while not reading.advance(1000):
            pass
    except YamlError:
        return 400
    return reading.value["spec"]


def same_types(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same_types(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return all(map(same_types, one, other))
    return isinstance(one, bool) is isinstance(other, bool)


async def test_scalars(api: RawApi, path: str) -> None:
    documents = [f"v: {tag}{word}" for word in _WORDS for tag in ("", "!!int ")]
    documents += [f"v: {tag}'{word}'" for word in _WORDS[::7] for tag in _TAGS]
    assert await disagreements(api, path, documents) == []


async def test_documents(api: RawApi, path: str) -> None:
    assert await disagreements(api, path, list(_DOCUMENTS)) == []


@pytest.mark.long
async def test_thousands_of_scalars(api: RawApi, path: str) -> None:
    chance = random.Random(16)
    documents = [f"v: {tag}{word}" for word, tag in itertools.product(_WORDS, _TAGS)]
    documents += [f"? {word}\n: 1" for word in _WORDS]
    documents += [
        "v: " + "".join(chance.choices("0123456789+-._eExXoObB:yYnN~", k=chance.randint(1, 7))) for _ in range(5000)
    ]
    assert await disagreements(api, path, documents) == []


@pytest.mark.parametrize("text", ["[" * 25_000, "{a: " * 25_000, "- " * 25_000, "!!int x", "*x", "[1"])
async def test_what_cannot_be_read_is_a_bad_request(api: RawApi, namespace: str, text: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    answer = await api.request("POST", path, text.encode(), content_type="application/yaml")
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")
    (await api.get(path)).expect(200)


@pytest.mark.parametrize("number", ["1:" * 500_000 + "1", "1" * 900_000, "0" * 900_000, "1e" + "9" * 900_000])
async def test_a_number_of_a_megabyte(api: RawApi, namespace: str, number: str) -> None:
    # Text, or a number where text belongs: never minutes.
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    body = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{v: {number}}}\n"
    answer = await api.request("POST", path, body.encode(), content_type="application/yaml")
    answer.expect(400 if set(number) == {"0"} else 201)


async def test_text_that_looks_like_something_else_comes_back_as_text(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    data = {f"k{n}": word for n, word in enumerate(_WORDS)}
    (await api.post(path, {"metadata": {"name": "a"}, "data": data})).expect(201)
    text = (await api.with_headers(accept="application/yaml").get(f"{path}/a")).raw
    reading = Reading(text)
    while not reading.advance(1000):
        pass
    assert reading.value["data"] == data
    again = text.replace(b"name: a\n", b"name: b\n").replace(b"resourceVersion:", b"# ").replace(b"uid:", b"# ")
    answer = await api.request("POST", path, again, content_type="application/yaml")
    assert answer.expect(201)["data"] == data
