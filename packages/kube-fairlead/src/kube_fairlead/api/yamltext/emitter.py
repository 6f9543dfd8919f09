"""Writing YAML that kube-apiserver, kubectl and `parser` read as what was written.

The library leaves text without quotes that it would itself read as text, such as `y` and `1e3`. For Kubernetes those
are a boolean and a number.

Upstream: go.yaml.in/yaml/v2@v2.4.3/resolve.go
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from kube_fairlead.api.yamltext import scalars

__all__ = ["write", "write_all"]

_STR = "tag:yaml.org,2002:str"


def write(value: Any, *, sort_keys: bool = False, width: int = 80) -> str:
    """A document."""
    return write_all([value], sort_keys=sort_keys, width=width)


def write_all(values: Iterable[Any], *, sort_keys: bool = False, width: int = 80) -> str:
    """Several documents, one after the other."""
    import yaml

    text: str = yaml.dump_all(
        values,
        Dumper=_dumper(),
        sort_keys=sort_keys,
        width=width,
        default_flow_style=False,
        allow_unicode=True,
    )
    return text


@functools.cache
def _dumper() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc] # the library's types know nothing of the one in C
        """Quotes what Kubernetes would not read as text."""

        def ignore_aliases(self, _data: Any) -> bool:
            return True  # equal parts are written out, as kubectl does

        def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
            tag = super().resolve(kind, value, implicit)
            if tag == _STR and kind is yaml.ScalarNode and implicit[0] and not scalars.is_text(value):
                return None  # not what it is read as: so it is quoted
            return tag

    return Dumper
