"""The examples of the README run, in order and in one namespace, as a reader would type them."""

from __future__ import annotations

import importlib.resources
import re
from typing import Any

README = importlib.resources.files("kube_fairlead_apiserver.cel").joinpath("README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_examples_run() -> None:
    assert len(EXAMPLES) >= 5
    assert README.count("```") == 2 * len(EXAMPLES)
    namespace: dict[str, Any] = {}
    for number, example in enumerate(EXAMPLES, 1):
        exec(compile(example, f"README example {number}", "exec"), namespace)


def test_every_expected_error_occurs() -> None:
    """A `try` of an example without an error would prove nothing."""
    tries = sum(example.count("try:") for example in EXAMPLES)
    namespace: dict[str, Any] = {"reached": []}
    for example in EXAMPLES:
        marked = re.sub(r"(except [^\n]*:\n)", r"\1    reached.append(1)\n", example)
        exec(compile(marked, "README", "exec"), namespace)
    assert len(namespace["reached"]) == tries
