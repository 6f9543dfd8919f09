from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api.fielderrors import FieldPath
from kube_fairlead_apiserver.registry.strategies.volumes import validate_volume_source

PATH = FieldPath("spec").item("volumes", 0)


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ({"emptyDir": {}}, []),
        ({"secret": {"secretName": "s"}}, []),
        ({"secret": {}}, ["secret.secretName: Required value"]),
        ({"secret": None}, [": Required value: must specify a volume type"]),
        ({"hostPath": {"path": "/a/../b"}}, ["hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"]),
        ({"nfs": {"server": "s", "path": "x"}}, ['nfs.path: Invalid value: "x": must be an absolute path']),
        (
            {"secret": {"secretName": "s"}, "emptyDir": {}},
            ["secret: Forbidden: may not specify more than 1 volume type"],
        ),
    ],
)
def test_one_source_with_what_it_needs(sources: dict[str, Any], expected: list[str]) -> None:
    found = [str(problem) for problem in validate_volume_source({"name": "v", **sources}, PATH)]
    assert found == [f"{PATH}{'' if text.startswith(':') else '.'}{text}" for text in expected]


SOURCES = st.dictionaries(
    st.sampled_from(["emptyDir", "secret", "configMap", "nfs", "persistentVolumeClaim", "projected"]),
    st.none() | st.dictionaries(st.sampled_from(["secretName", "name", "claimName", "server", "path"]), st.just("/x")),
    min_size=1,
)


@given(SOURCES)
def test_the_short_way_finds_what_the_long_one_does(sources: dict[str, Any]) -> None:
    volume = {"name": "v", **sources}
    # A field that means nothing to anybody makes it go the long way.
    assert validate_volume_source(volume, PATH) == validate_volume_source({**volume, "unknown": None}, PATH)
