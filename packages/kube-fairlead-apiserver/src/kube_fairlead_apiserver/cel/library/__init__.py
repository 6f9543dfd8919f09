"""Functions that expressions can call, a module per library.

A library declares names, signatures, costs and plain Python functions; it uses neither syntax trees nor frames.
``STANDARD`` is the language itself, ``KUBERNETES`` exactly the functions of Kubernetes 1.36, and ``EXTENDED`` adds the
other extensions of cel-go.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/environment/base.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/library/libraries.go,
    github.com/google/cel-go@v0.26.0/ext/comprehensions.go
"""

from __future__ import annotations

from kube_fairlead_apiserver.cel import declarations, macros
from kube_fairlead_apiserver.cel.library import (
    authorization,
    calendar,
    conversions,
    formats,
    lists,
    mathematics,
    networks,
    operators,
    optionals,
    patterns,
    quantities,
    semvers,
    sets,
    strings,
    urls,
)

__all__ = ["EXTENDED", "KUBERNETES", "STANDARD"]

STANDARD: tuple[declarations.Library, ...] = (
    declarations.Library("macros", macros=macros.STANDARD),
    operators.OPERATORS,
    conversions.CONVERSIONS,
    calendar.CALENDAR,
    strings.TEXT_TESTS,
    patterns.MATCHING,
)
KUBERNETES: tuple[declarations.Library, ...] = (
    *STANDARD,
    declarations.Library("two-variable comprehensions", macros=macros.TWO_VARIABLES),
    optionals.OPTIONALS,
    patterns.KUBERNETES_REGEX,
    lists.KUBERNETES_LISTS,
    strings.STRINGS,
    sets.SETS,
    lists.LISTS,
    urls.URLS,
    quantities.QUANTITIES,
    networks.NETWORKS,
    formats.FORMATS,
    semvers.SEMVERS,
    authorization.AUTHORIZATION,
)
EXTENDED: tuple[declarations.Library, ...] = (
    *KUBERNETES,
    declarations.Library("bindings", macros=macros.BINDINGS),
    strings.REVERSE,
    mathematics.MATH,
)
