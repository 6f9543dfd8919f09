"""The type of an object as decoded JSON. The one alias in the code base, so that one name means one thing."""

from __future__ import annotations

from typing import Any

__all__ = ["Json"]

Json = dict[str, Any]
