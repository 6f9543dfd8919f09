from __future__ import annotations

import pytest

from kube_fairlead_apiserver import cel
from kube_fairlead_apiserver.cel import types
from kube_fairlead_apiserver.schema import expression_types, model


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "double"),
        ({"type": "boolean"}, "bool"),
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "byte"}, "bytes"),
        ({"type": "string", "format": "date"}, "timestamp"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "duration"}, "duration"),
        ({"type": "string", "format": "uuid"}, "string"),
        ({"x-kubernetes-int-or-string": True}, "dyn"),
        ({"x-kubernetes-preserve-unknown-fields": True}, "dyn"),
        ({"type": "array", "items": {"type": "string"}}, "list(string)"),
        ({"type": "array"}, "dyn"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map(string, int)"),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, "thing"),
        ({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}, "list(thing.@idx)"),
    ],
)
def test_a_schema_has_the_type_kubernetes_gives_it(schema: dict[str, object], name: str) -> None:
    assert str(expression_types.from_schema(model.compile_schema(schema), name="thing")) == name


def test_what_has_no_schema_is_invisible_inside_an_object() -> None:
    schema = {
        "type": "object",
        "properties": {"free": {"x-kubernetes-preserve-unknown-fields": True}, "n": {"type": "integer"}},
    }
    object_type = expression_types.from_schema(model.compile_schema(schema))
    assert isinstance(object_type, types.ObjectType)
    assert list(object_type.fields) == ["n"]


def test_a_recursive_schema_is_read_as_far_as_an_expression_goes() -> None:
    node = model.SchemaNode(type="object", properties={"n": model.SchemaNode(type="integer")})
    node.properties["next"] = node
    program = cel.Environment({"self": expression_types.from_schema(node)}).compile(
        "self.next.next.n == 3 && self.next == self.next"
    )
    assert program.evaluate({"self": {"next": {"next": {"n": 3}}}}) is True


def test_every_resource_has_a_name_and_a_kind() -> None:
    node = model.compile_schema({"type": "object", "properties": {"spec": {"type": "object"}}})
    environment = cel.Environment({"self": expression_types.from_schema(node, name="Widget", resource_root=True)})
    resource = {"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "w", "labels": {}}}
    assert environment.compile("self.kind + '/' + self.metadata.name").evaluate({"self": resource}) == "Widget/w"
    with pytest.raises(cel.CompileError, match="undefined field 'labels'"):
        environment.compile("self.metadata.labels")


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "string", "format": "date-time"}, "yesterday", "Invalid date-time formatted string yesterday"),
        ({"type": "string", "format": "duration"}, "long", "Invalid duration long"),
        ({"type": "string", "format": "byte"}, "?", "Invalid byte formatted string"),
        ({"type": "string", "format": "byte"}, 5, "expected string"),
        ({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}, {}, "expected an array"),
    ],
)
def test_data_that_breaks_its_schema_is_an_error(schema: dict[str, object], value: object, message: str) -> None:
    program = cel.Environment({"self": expression_types.from_schema(model.compile_schema(schema))}).compile(
        "self == self"
    )
    with pytest.raises(cel.EvaluationError, match=message):
        program.evaluate({"self": value})


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("self.numbers.all(n, n > 0)", {"numbers": [1, None]}),
        ("self.count + 1 == 2", {"count": "one"}),
        ("self.names.all(n, n.size() > 1)", {"names": [5]}),
        ("self.labels.a.startsWith('x')", {"labels": {"a": None}}),
    ],
)
def test_typed_code_survives_data_of_another_type(expression: str, value: dict[str, object]) -> None:
    schema = {
        "type": "object",
        "properties": {
            "numbers": {"type": "array", "items": {"type": "integer", "nullable": True}},
            "count": {"type": "integer"},
            "names": {"type": "array", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
        },
    }
    program = cel.Environment({"self": expression_types.from_schema(model.compile_schema(schema))}).compile(expression)
    with pytest.raises(cel.EvaluationError, match="invalid data"):
        program.evaluate({"self": value})


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("1h", 3600 * 10**9), ("3 days", 3 * 86400 * 10**9), ("2 hours 5 min", 7500 * 10**9), ("10ms", 10**7)],
)
def test_durations_of_schemas_may_be_words(text: str, nanoseconds: int) -> None:
    node = model.compile_schema({"type": "string", "format": "duration"})
    program = cel.Environment({"self": expression_types.from_schema(node)}).compile("self.getMilliseconds()")
    assert program.evaluate({"self": text}) == nanoseconds // 10**6
