"""IP addresses and ranges of them, as fields of objects."""

from __future__ import annotations

import ipaddress

from fairlead.api import names
from fairlead.api.fielderrors import FieldError, FieldPath
from fairlead.apiserver.registry.strategies import checks

__all__ = ["validate_address", "validate_endpoint_address", "validate_range"]


def validate_address(text: str, path: FieldPath) -> list[FieldError]:
    """One address."""
    return checks.complaints(path, text, names.ip_address(text))


def validate_range(text: str, path: FieldPath) -> list[FieldError]:
    """All addresses that begin with the same bits."""
    try:
        if "/" in text:
            ipaddress.ip_network(text, strict=False)
            return []
    except ValueError:
        pass
    return [FieldError.invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]


def validate_endpoint_address(text: str, path: FieldPath) -> list[FieldError]:
    """An address at which a service can be reached from elsewhere. Only for what is an address."""
    address = ipaddress.ip_address(text)
    if address.is_unspecified:
        return [FieldError.invalid(path, text, f"may not be unspecified ({text})")]
    if address.is_loopback:
        return [FieldError.invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")]
    if address.is_link_local:
        return [FieldError.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")]
    return []
