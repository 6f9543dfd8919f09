"""Named string formats: ``format.dns1123Label().validate(name)`` returns none, or the list of errors.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/library/format.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/format.go
"""

from __future__ import annotations

from collections.abc import Callable

from kube_fairlead.api import names
from kube_fairlead_apiserver.cel import string_formats, values
from kube_fairlead_apiserver.cel.declarations import Library, function, member
from kube_fairlead_apiserver.cel.library import costs, urls
from kube_fairlead_apiserver.cel.types import STRING, CelType, Kind, list_of, optional_of

__all__ = ["FORMATS", "Format"]

_FORMAT = CelType(Kind.OBJECT, "kubernetes.NamedFormat")


class Format(values.Opaque):
    """A named format. The size of its pattern determines the cost of a check."""

    __slots__ = ("check", "name", "pattern_size")
    cel_type = _FORMAT

    def __init__(self, name: str, pattern_size: int, check: Callable[[str], list[str]]) -> None:
        self.name = name
        self.pattern_size = pattern_size
        self.check = check

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def _schema_check(format_name: str, complaint: str) -> Callable[[str], list[str]]:
    matches = string_formats.matches_format(format_name)
    if matches is None:
        raise ValueError(f"schemas know no format {format_name}")
    return lambda text: [] if matches(text) else [complaint]


def _uri(text: str) -> list[str]:
    try:
        urls.check_request_uri(text)
    except ValueError as error:
        return [str(error)]
    return []


_FORMATS = {
    "dns1123Label": Format("DNS1123Label", 30, names.name_is_dns_label),
    "dns1123Subdomain": Format("DNS1123Subdomain", 60, names.name_is_dns_subdomain),
    "dns1035Label": Format("DNS1035Label", 30, names.name_is_dns1035_label),
    "qualifiedName": Format("QualifiedName", 60, names.qualified_name),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", 30, lambda text: names.name_is_dns_label(text, prefix=True)),
    "dns1123SubdomainPrefix": Format(
        "DNS1123SubdomainPrefix", 60, lambda text: names.name_is_dns_subdomain(text, prefix=True)
    ),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", 30, lambda text: names.name_is_dns1035_label(text, prefix=True)),
    "labelValue": Format("LabelValue", 40, names.label_value),
    "uri": Format("URI", 1103, _uri),
    "uuid": Format("uuid", 77, _schema_check("uuid", "does not match the UUID format")),
    "byte": Format("byte", 84, _schema_check("byte", "invalid base64")),
    "date": Format("date", 76, _schema_check("date", "invalid date")),
    "datetime": Format("datetime", 76, _schema_check("datetime", "invalid datetime")),
}


def _validate(named: Format, text: str) -> values.Optional:
    complaints = named.check(text)
    return values.Optional(complaints) if complaints else values.NONE


def _named(name: str) -> values.Optional:
    found = _FORMATS.get(name)
    return values.NONE if found is None else values.Optional(found)


def _validation_cost(arguments: tuple[Format, str]) -> int:
    return costs.format_check(arguments[1], arguments[0].pattern_size)


def _giving(named: Format) -> Callable[[], Format]:
    return lambda: named


FORMATS = Library(
    "kubernetes.format",
    overloads=(
        member("validate", (_FORMAT, STRING), optional_of(list_of(STRING)), _validate, _validation_cost),
        function("format.named", (STRING,), optional_of(_FORMAT), _named),
        *(function(f"format.{name}", (), _FORMAT, _giving(named)) for name, named in _FORMATS.items()),
    ),
)
