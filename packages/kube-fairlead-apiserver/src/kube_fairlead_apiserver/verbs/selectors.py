"""Selectors in requests: which objects a list, a watch or a deletecollection selects.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/get.go,
    k8s.io/apimachinery@v0.36.4/pkg/runtime/conversion.go
"""

from __future__ import annotations

from kube_fairlead.api import errors, golang, selectors
from kube_fairlead_apiserver.offload import weigh
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.storage.selection import Selection
from kube_fairlead_apiserver.verbs.call import Call

__all__ = ["read_selection"]

# Parsing a character of a label selector takes as long as processing this many bytes of a body.
_SELECTOR_WEIGHT = 8
_ALWAYS = ("metadata.name", "metadata.namespace")


async def read_selection(call: Call) -> Selection:
    """Return the namespace of the path and the selectors of the query, checked."""
    query = call.request.query
    query.integer("timeoutSeconds")  # has no effect on a list, and must be a number all the same
    labels = fields = None
    try:
        if text := query.get("labelSelector"):
            weigh(len(text) * _SELECTOR_WEIGHT)
            labels = await call.core.offload.run(_read_labels, text)
    except selectors.SelectorError as error:
        raise errors.BadRequest(str(error)) from error
    try:
        if text := query.get("fieldSelector"):
            fields = selectors.parse_field_selector(text)
    except selectors.SelectorError as error:
        raise errors.BadRequest(str(error)) from error
    name = call.info.name
    indexed = None
    if fields is not None:
        aliases = call.resource.field_aliases
        if aliases:
            fields = fields.transform(lambda field, value: (aliases.get(field, field), value))
        _check_fields(call.resource, fields)
        indexed = _indexable(fields)
        if fields.empty:
            fields = None
    return Selection(
        namespace=call.info.namespace if call.resource.namespaced else "",
        name=name,
        labels=labels,
        fields=None if fields is None else selectors.CompactFields(fields),
        indexed_field=indexed,
    )


def _read_labels(text: str) -> selectors.CompactLabels | None:
    labels = selectors.parse_label_selector(text)
    return None if labels.empty else selectors.CompactLabels(labels)


def _check_fields(resource: Resource, fields: selectors.FieldMatcher) -> None:
    known = resource.selectable_fields()
    for requirement in fields.requirements:
        if requirement.field in known or requirement.field in _ALWAYS:
            continue
        if known or resource.is_custom:
            raise errors.BadRequest(f"field label not supported: {requirement.field}")
        offered = ", ".join(golang.quote(name) for name in _ALWAYS)
        raise errors.BadRequest(f"{golang.quote(requirement.field)} is not a known field selector: only {offered}")


def _indexable(fields: selectors.FieldMatcher) -> tuple[str, str] | None:
    """Return the first field that must have one value, and this value."""
    exact = fields.exact_values()
    return next(
        (
            (requirement.field, value)
            for requirement in fields.requirements
            if requirement.field not in _ALWAYS and (value := exact.get(requirement.field))
        ),
        None,
    )
