from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.agent.shutdown.pod_cache import cached
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Pod


@pytest.mark.parametrize(
    ("hook", "kept"),
    [
        ({"httpGet": {"port": "web", "path": "/bye"}}, {"httpGet": {"port": 8080, "path": "/bye"}}),
        ({"httpGet": {"port": 81}}, {"httpGet": {"port": 81}}),
        ({"httpGet": {"port": "nobody"}}, {"httpGet": {"port": "nobody"}}),
        ({"exec": {"command": ["true"]}}, {"exec": {"command": ["true"]}}),
    ],
)
def test_a_hook_to_a_named_port_is_kept_with_its_number(hook: dict[str, Any], kept: dict[str, Any]) -> None:
    container: dict[str, Any] = {"name": "c", "image": "i", "lifecycle": {"preStop": hook}}
    container["ports"] = [{"name": "web", "containerPort": 8080}]
    tree = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"containers": [container]}}
    assert cached(wire.from_dict(Pod, tree)).pre_stop == {"c": kept}
