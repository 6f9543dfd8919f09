"""Label and field selectors: the strings clients send, parsed and matched exactly as Kubernetes does.

A parser raises `SelectorError` with Kubernetes' message. A matcher exposes its requirements, so that a server can use
an index and a client can print what it waits for.
"""

from __future__ import annotations

from kube_fairlead.api.selectors.compact import CompactFields, CompactLabels
from kube_fairlead.api.selectors.fields import EVERY_FIELD, FieldMatcher, FieldRequirement, parse_field_selector
from kube_fairlead.api.selectors.labels import (
    EVERYTHING,
    NOTHING,
    LabelMatcher,
    LabelRequirement,
    Operator,
    SelectorError,
    label_selector_from,
    parse_integer,
    parse_label_selector,
)

__all__ = [
    "EVERYTHING",
    "EVERY_FIELD",
    "NOTHING",
    "CompactFields",
    "CompactLabels",
    "FieldMatcher",
    "FieldRequirement",
    "LabelMatcher",
    "LabelRequirement",
    "Operator",
    "SelectorError",
    "label_selector_from",
    "parse_field_selector",
    "parse_integer",
    "parse_label_selector",
]
