from __future__ import annotations

import pytest

from kube_fairlead.base.environment import Environment
from kube_fairlead.client import proxies

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "variables", "expected"),
    [
        ("https://k.example.com", {}, ""),
        ("https://k.example.com", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://k.example.com", {"https_proxy": "proxy:3128"}, PROXY),
        ("https://k.example.com", {"HTTP_PROXY": PROXY}, ""),
        ("http://k.example.com", {"HTTP_PROXY": PROXY}, PROXY),
        ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://k.example.com", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, ""),
        ("https://k.example.com", {"HTTPS_PROXY": PROXY, "NO_PROXY": "example.com"}, ""),
        ("https://k.example.com", {"HTTPS_PROXY": PROXY, "NO_PROXY": "a, .example.com"}, ""),
        ("https://k.example.com", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*.example.com"}, ""),
        ("https://example.com", {"HTTPS_PROXY": PROXY, "NO_PROXY": ".example.com"}, PROXY),
        ("https://badexample.com", {"HTTPS_PROXY": PROXY, "NO_PROXY": "example.com"}, PROXY),
        ("https://k.example.com:6443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "k.example.com:6443"}, ""),
        ("https://k.example.com:6443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "k.example.com:443"}, PROXY),
        ("https://10.1.2.3", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, ""),
        ("https://10.1.2.3", {"HTTPS_PROXY": PROXY, "NO_PROXY": "11.0.0.0/8,nonsense/8"}, PROXY),
        ("https://10.1.2.3", {"HTTPS_PROXY": PROXY, "no_proxy": "10.1.2.3"}, ""),
    ],
)
def test_which_proxy(server: str, variables: dict[str, str], expected: str) -> None:
    assert proxies.proxy_for(server, Environment(variables)) == expected
