"""Links between pages lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import ROOT

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def pages() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    for folder in ("bench", "deploy", "docs", "examples", "packages", "proto"):
        yield from sorted((ROOT / folder).rglob("*.md"))


def dead_links(page: Path, text: str) -> list[str]:
    targets = (target.partition("#")[0] for target in LINK.findall(FENCE.sub("", text)))
    return [
        f"{page}: {target}"
        for target in targets
        if target and "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists()
    ]


def test_links_lead_somewhere() -> None:
    assert [link for page in pages() for link in dead_links(page, page.read_text(encoding="utf-8"))] == []


def test_it_bites() -> None:
    page = ROOT / "docs" / "README.md"
    assert dead_links(page, "[x](nowhere.md)")
    assert dead_links(page, "[x](../nowhere.md#part)")
    assert dead_links(page, "[x](../ARCHITECTURE.md#layers) [y](https://a.b/c) [z](#here)\n```\n[x](code)\n```") == []
