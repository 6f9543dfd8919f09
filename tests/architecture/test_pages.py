"""Links between pages lead to a file, and to a heading of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import ROOT

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PAGE = ROOT / "ARCHITECTURE.md"
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)


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


def anchors(text: str) -> set[str]:
    """The fragments that GitHub makes of a page's headings."""
    headings = HEADING.findall(FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_fragments(page: Path, text: str) -> list[str]:
    found = []
    for link in LINK.findall(FENCE.sub("", text)):
        target, _, fragment = link.partition("#")
        other = page.parent / target if target else None
        if not fragment or "://" in link or (other and (other.suffix != ".md" or not other.exists())):
            continue
        if fragment not in anchors(other.read_text(encoding="utf-8") if other else text):
            found.append(f"{page}: {link}")
    return found


def test_links_lead_somewhere() -> None:
    assert [link for page in pages() for link in dead_links(page, page.read_text(encoding="utf-8"))] == []


def test_links_lead_to_headings() -> None:
    assert [link for page in pages() for link in dead_fragments(page, page.read_text(encoding="utf-8"))] == []


def test_it_bites() -> None:
    page = ROOT / "docs" / "README.md"
    assert dead_links(page, "[x](nowhere.md)")
    assert dead_links(page, "[x](../nowhere.md#part)")
    assert dead_fragments(page, "[x](#nowhere)")
    assert dead_fragments(page, "[x](drain.md#nowhere)")
    assert dead_fragments(page, "# It's `here`, now\n[x](#its-here-now) [y](../ARCHITECTURE.md#layers)") == []
    assert dead_links(page, "[x](../ARCHITECTURE.md#layers) [y](https://a.b/c) [z](#here)\n```\n[x](code)\n```") == []


def test_journeys_name_files_that_exist() -> None:
    page = PAGE.read_text(encoding="utf-8")
    journeys = [part for part in page.split("\n## ") if part.startswith("Journey of one ")]
    assert len(journeys) == 4
    product = ROOT / "packages" / "kube-fairlead" / "src" / "kube_fairlead"
    server = ROOT / "packages" / "kube-fairlead-apiserver" / "src"
    missing = []
    for journey in journeys:
        for name in re.findall(r"`([a-z_0-9]+(?:/[a-z_0-9]+)+)`", journey):
            place = (server if name.startswith("kube_fairlead_apiserver/") else product) / name
            if not place.is_dir() and not place.with_suffix(".py").is_file():
                missing.append(name)
    assert missing == []


def test_the_glossary_is_short_and_its_words_are_used() -> None:
    page = PAGE.read_text(encoding="utf-8")
    _, _, glossary = page.partition("\n## Glossary\n")
    words = re.findall(r"^\| ([^|]+?) \|", glossary, re.MULTILINE)[1:]
    assert 4 <= len(words) <= 30
    assert sorted(set(words)) == sorted(words)
    rest = page.removesuffix(glossary) + "".join(path.read_text(encoding="utf-8") for path in pages() if path != PAGE)
    used = {word for one in words for word in one.split(", ")}
    unused = [word for word in used if not re.search(rf"\b{word.replace(' ', '[ -]')}\b", rest, re.IGNORECASE)]
    assert unused == []


def test_the_readme_defines_its_words_before_it_uses_them() -> None:
    text = FENCE.sub("", (ROOT / "README.md").read_text(encoding="utf-8"))
    before, _, rest = text.partition("\n## Four words\n")
    words = re.findall(r"^\| (\w+) \|", rest.partition("\n## ")[0], re.MULTILINE)[1:]
    assert words == ["transition", "event", "driver", "claim"]
    assert [word for word in words if re.search(rf"\b{word}s?\b", before)] == []
