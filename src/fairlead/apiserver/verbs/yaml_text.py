"""Reading YAML safely, with an eye for keys that occur twice.

What no JSON says (aliases, several documents, tags) is refused: an object of the API is JSON, however it is written.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api import errors, golang

__all__ = ["read_yaml"]


def read_yaml(data: bytes) -> tuple[Any, list[str]]:
    """The document as JSON, and the keys that it has twice, in the words of Kubernetes; the last one counts."""
    import yaml  # real YAML is rare, and takes time to load

    # The same loader in C, where the library was built with it.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(data)
    try:
        root = loader.get_single_node()
        repeated: list[str] = []
        _inspect(root, set(), repeated)
        value = None if root is None else loader.construct_document(root)
        # Dates become text again by a round trip through the encoder, and what JSON cannot hold is found.
        return msgspec.json.decode(msgspec.json.encode(value)), repeated
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise errors.BadRequest(f"error converting YAML to JSON: {error}") from error
    finally:
        loader.dispose()


def _inspect(node: Any, seen: set[int], repeated: list[str]) -> None:
    """Look at the tree of nodes: a node that is met twice was meant by an alias."""
    if node is None:
        return
    if id(node) in seen:
        # A few hundred bytes of aliases can stand for gigabytes.
        raise errors.BadRequest("error converting YAML to JSON: aliases are not supported")
    seen.add(id(node))
    if node.id != "mapping":
        for item in node.value if node.id == "sequence" else ():
            _inspect(item, seen, repeated)
        return
    keys: set[str] = set()
    for key, item in node.value:
        _inspect(key, seen, repeated)
        _inspect(item, seen, repeated)
        if isinstance(key.value, str):
            if key.value in keys:
                line = item.start_mark.line + 1
                repeated.append(f"line {line}: key {golang.quote(key.value)} already set in map")
            keys.add(key.value)
