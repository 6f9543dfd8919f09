"""CEL rules of a schema (``x-kubernetes-validations``): compiled once, evaluated for each object.

In a rule, ``self`` is the value. A rule that reads ``oldSelf`` is a transition rule: it runs only where an old value
correlates with the new one, or always with ``optionalOldSelf``. On update, a failure that the update did not cause
becomes a warning (ratcheting), except for transition rules.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/cel/compilation.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/cel/validation.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from kube_fairlead.api.fielderrors import OMIT_VALUE, FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.cel import budget, environment, errors, types, values
from kube_fairlead_apiserver.schema import expression_types
from kube_fairlead_apiserver.schema.correlation import CorrelatedValue
from kube_fairlead_apiserver.schema.field_paths import resolve_field_path
from kube_fairlead_apiserver.schema.model import ANYTHING, SchemaNode

__all__ = ["Rule", "RuleTree", "compile_rule_list", "compile_rules", "rule_environments", "validate_rules"]


_MESSAGE_BYTES_MAX = 5 * 1024
_SPENT = "validation failed due to running out of cost budget, no further validation rules will be run"
_MESSAGE_SPENT = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One compiled rule, or the reason why it does not compile."""

    source: Json
    program: environment.Program | None = None
    message: environment.Program | None = None
    problem: str = ""
    message_problem: str = ""
    field_path: str = ""

    @property
    def uses_old_self(self) -> bool:
        """Whether this is a transition rule."""
        return self.program is not None and "oldSelf" in self.program.variables

    @property
    def optional_old_self(self) -> bool:
        """Whether the rule runs without an old value, too."""
        return bool(self.source.get("optionalOldSelf"))

    @property
    def title(self) -> str:
        """The name of the rule in error texts."""
        return (self.source.get("message") or self.source.get("rule") or "").strip()

    @property
    def complaint(self) -> str:
        """The error text of a failure without a message expression."""
        message = self.source.get("message") or ""
        return message.strip() if message else f"failed rule: {self.title}"


@dataclasses.dataclass(slots=True)
class RuleTree:
    """The rules at one node and below; nodes without rules are not in the tree."""

    node: SchemaNode
    self_type: types.CelType
    rules: tuple[Rule, ...] = ()
    properties: dict[str, RuleTree] = dataclasses.field(default_factory=dict)
    additional: RuleTree | None = None
    items: RuleTree | None = None

    def validate(
        self, value: Any, path: FieldPath | None = None, *, old: Any = None, warnings: list[str] | None = None
    ) -> list[FieldError]:
        """Return all failures for a value; ``old`` is the value that an update replaces.

        Excused failures go to ``warnings``.
        """
        run = _Run(budget.Budget(), [] if warnings is None else warnings)
        pair = None if old is None else CorrelatedValue(self.node, value, old)
        return list(run.walk(self, value, old, path or FieldPath(), _Ratchet(pair, None)))


def validate_rules(
    node: SchemaNode, value: Any, path: FieldPath | None = None, *, old: Any = None, root: bool = True
) -> list[FieldError]:
    """Compile and evaluate the rules, for a value that is validated once."""
    tree = compile_rules(node, root=root)
    return [] if tree is None else tree.validate(value, path, old=old)


def compile_rules(node: SchemaNode, *, root: bool = True) -> RuleTree | None:
    """Compile the rules of a schema; None if it has none. ``root``: the values are whole resources."""
    if not _has_rules(node):
        return None
    return _compile(node, resource=root or node.embedded_resource)


def _has_rules(node: SchemaNode) -> bool:
    return bool(node.source.get("x-kubernetes-validations")) or any(
        _has_rules(child) for child in (*node.properties.values(), node.additional, node.items) if child is not None
    )


def _compile(node: SchemaNode, *, resource: bool) -> RuleTree | None:
    if not _is_typed(node) or not _has_rules(node):
        return None  # a node without a type does not exist in CEL
    self_type = expression_types.from_schema(node, resource_root=resource)
    tree = RuleTree(node, self_type, tuple(compile_rule_list(node, self_type)))
    for name, child in node.properties.items():
        below = _compile(child, resource=child.embedded_resource)
        if below is not None:
            tree.properties[name] = below
    if node.additional is not None:
        tree.additional = _compile(node.additional, resource=node.additional.embedded_resource)
    if node.items is not None:
        tree.items = _compile(node.items, resource=node.items.embedded_resource)
    return tree


def _is_typed(node: SchemaNode) -> bool:
    if node.int_or_string:
        return True
    if node.type == "array":
        return node.items is not None and _is_typed(node.items)
    if node.type == "object" and node.additional is not None and node.additional is not ANYTHING:
        return _is_typed(node.additional)
    return bool(node.type)


def rule_environments(self_type: types.CelType) -> tuple[environment.Environment, environment.Environment]:
    """Return the environments of plain rules and of rules with optionalOldSelf."""
    return (
        environment.Environment({"self": self_type, "oldSelf": self_type}),
        environment.Environment({"self": self_type, "oldSelf": types.optional_of(self_type)}),
    )


def compile_rule_list(node: SchemaNode, self_type: types.CelType) -> Iterator[Rule]:
    """Compile the rules of one node, in order; each is compiled or has its problem."""
    plain, optional = rule_environments(self_type)
    for source in node.source.get("x-kubernetes-validations") or ():
        yield _compile_rule(node, source, optional if source.get("optionalOldSelf") else plain)


def _compile_rule(node: SchemaNode, source: Json, env: environment.Environment) -> Rule:
    if not (source.get("rule") or "").strip():
        return Rule(source)
    try:
        program = env.compile(source["rule"])
    except errors.CompileError as error:
        return Rule(source, problem=f"compilation failed: {error}")
    if program.result_type != types.BOOL:
        return Rule(source, problem="cel expression must evaluate to a bool")
    message, message_problem = None, ""
    if source.get("messageExpression"):
        try:
            message = env.compile(source["messageExpression"])
        except errors.CompileError as error:
            message_problem = f"messageExpression compilation failed: {error}"
        else:
            if message.result_type != types.STRING:
                message, message_problem = None, "messageExpression must evaluate to a string"
    field_path = ""
    if source.get("fieldPath"):
        try:
            field_path = str(resolve_field_path(source["fieldPath"], node)[0])
        except ValueError:
            field_path = ""  # rejected when the CRD was written; here the error stays at the value
    return Rule(source, program, message, "", message_problem, field_path)


@dataclasses.dataclass(frozen=True, slots=True)
class _Ratchet:
    """The correlated value at a place, or the nearest one above it when nothing correlates here."""

    current: CorrelatedValue | None
    above: CorrelatedValue | None

    def field(self, name: str) -> _Ratchet:
        if self.current is None:
            return self
        if self.above is None and name in {"apiVersion", "kind"}:
            return _Ratchet(None, None)  # the type is converted before validation, so it never counts as unchanged
        return _Ratchet(self.current.field(name), self.current)

    def item(self, index: int) -> _Ratchet:
        return self if self.current is None else _Ratchet(self.current.item(index), self.current)

    def excuses(self) -> bool:
        nearest = self.current or self.above
        return nearest is not None and nearest.unchanged()


class _Stop(Exception):
    """The cost budget is exceeded; holds the error."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


class _Run:
    """One validation of one object; all rules share a cost budget."""

    def __init__(self, allowance: budget.Budget, warnings: list[str]) -> None:
        self.allowance = allowance
        self.warnings = warnings

    def walk(self, tree: RuleTree, value: Any, old: Any, path: FieldPath, ratchet: _Ratchet) -> Iterator[FieldError]:
        try:
            yield from self._walk(tree, value, old, path, ratchet)
        except _Stop as stop:
            yield stop.error

    def _walk(self, tree: RuleTree, value: Any, old: Any, path: FieldPath, ratchet: _Ratchet) -> Iterator[FieldError]:
        if value is None:
            return  # a rule about null belongs to the value around it
        if tree.rules:
            yield from self._evaluate_all(tree, value, old, path, ratchet)
        if value.__class__ is list and tree.items is not None:
            pairs = CorrelatedValue(tree.node, value, old)
            for index, item in enumerate(value):
                pair = pairs.item(index)
                before = None if pair is None else pair.old
                yield from self._walk(tree.items, item, before, path.index(index), ratchet.item(index))
        elif value.__class__ is dict:
            before = old if old.__class__ is dict else {}
            for name, item in value.items():
                if tree.additional is not None and name not in tree.node.properties:
                    below, where = tree.additional, path.key(name)
                elif name in tree.properties:
                    below, where = tree.properties[name], path.child(name)
                else:
                    continue
                yield from self._walk(below, item, before.get(name), where, ratchet.field(name))

    def _evaluate_all(
        self, tree: RuleTree, value: Any, old: Any, path: FieldPath, ratchet: _Ratchet
    ) -> Iterator[FieldError]:
        kind = tree.node.type
        if self.allowance.remaining <= 0:
            raise _Stop(FieldError.invalid(path, kind, _SPENT))
        for rule in tree.rules:
            if rule.problem:
                yield FieldError.invalid(path, kind, f"rule compile error: {rule.problem}")
                continue
            if rule.program is None or (rule.uses_old_self and old is None and not rule.optional_old_self):
                continue
            bindings = {"self": value, "oldSelf": _old_self(tree, rule, old)}
            try:
                holds = rule.program.evaluate(bindings, self.allowance)
            except errors.CostExceeded as error:
                raise _Stop(self._too_expensive(rule, path, kind, error)) from None
            except errors.EvaluationError as error:
                yield FieldError.invalid(path, kind, _evaluation_problem(rule, error))
                continue
            if holds is not True:
                where = path.child(rule.field_path) if rule.field_path else path
                failure = self._failure(rule, bindings, where, value, kind)
                if not rule.uses_old_self and ratchet.excuses():
                    self.warnings.append(str(failure))
                else:
                    yield failure

    def _too_expensive(self, rule: Rule, path: FieldPath, kind: str, error: Exception) -> FieldError:
        if self.allowance.exhausted:
            return FieldError.invalid(path, kind, _SPENT)
        problem = f"no further validation rules will be run due to call cost exceeds limit for rule: {rule.title}"
        return FieldError.invalid(path, kind, f"'{error}': {problem}")

    def _failure(self, rule: Rule, bindings: Json, path: FieldPath, value: Any, kind: str) -> FieldError:
        detail = rule.complaint
        if rule.message is not None:
            try:
                detail = _usable_message(rule.message.evaluate(bindings, self.allowance)) or detail
            except errors.CostExceeded:
                raise _Stop(FieldError.invalid(path, kind, _MESSAGE_SPENT)) from None
            except errors.EvaluationError:
                pass  # the rule's own message still says what is wrong
        shown = OMIT_VALUE if kind in {"object", "array"} else value
        match rule.source.get("reason"):
            case "FieldValueForbidden":
                return FieldError.forbidden(path, detail)
            case "FieldValueRequired":
                return FieldError.required(path, detail)
            case "FieldValueDuplicate":
                return FieldError.duplicate(path, shown)
            case _:
                return FieldError.invalid(path, shown, detail)


def _old_self(tree: RuleTree, rule: Rule, old: Any) -> Any:
    if not rule.optional_old_self:
        return old
    if old is None:
        return values.NONE
    adapter = tree.self_type.adapter
    return values.Optional(old if adapter is None else adapter(old))


def _evaluation_problem(rule: Rule, error: Exception) -> str:
    if str(error).startswith("no such overload"):
        words = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{error}': {words}: {rule.title}"
    return f"{error} evaluating rule: {rule.title}"


def _usable_message(text: Any) -> str:
    message = text.strip() if isinstance(text, str) else ""
    return "" if "\n" in message or len(message.encode()) > _MESSAGE_BYTES_MAX else message
