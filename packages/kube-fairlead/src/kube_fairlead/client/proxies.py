"""Which proxy a request goes through, as HTTPS_PROXY, HTTP_PROXY and NO_PROXY say (the rules of Go's clients)."""

from __future__ import annotations

import ipaddress
import urllib.parse

from kube_fairlead.base.environment import Environment

__all__ = ["proxy_for"]


def proxy_for(server: str, environment: Environment) -> str:
    """The proxy for a server's URL, or nothing. A server on this machine is always reached directly."""
    url = urllib.parse.urlsplit(server)
    host = (url.hostname or "").lower()
    variable = "HTTPS_PROXY" if url.scheme == "https" else "HTTP_PROXY"
    proxy = environment.get(variable) or environment.get(variable.lower()) or ""
    if not proxy or _is_local(host):
        return ""
    port = url.port or (443 if url.scheme == "https" else 80)
    exceptions = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    if any(_matches(part.strip().lower(), host, port) for part in exceptions.split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _matches(rule: str, host: str, port: int) -> bool:
    if not rule:
        return False
    if rule == "*":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if address is not None and "/" in rule:
        try:
            return address in ipaddress.ip_network(rule, strict=False)
        except ValueError:
            return False
    name, _, wanted_port = rule.rpartition(":") if rule.count(":") == 1 else (rule, "", "")
    if wanted_port and wanted_port != str(port):
        return False
    if address is not None:
        return name.strip("[]") == host
    # "example.com" covers itself and what is below it; ".example.com" and "*.example.com" only what is below.
    if name.startswith(("*.", ".")):
        return host.endswith(name.removeprefix("*"))
    return host == name or host.endswith(f".{name}")
