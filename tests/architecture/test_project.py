"""What an open project has beside its code: forms, hooks, pages; and that they name what exists."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.source import ROOT
from tests.architecture.test_pages import pages
from tests.architecture.test_workflows import MAKE, make_targets

FORMS = ROOT / ".github" / "ISSUE_TEMPLATE"
QUOTED = re.compile(r"`([^`\n]+)`|^(?: {4,}|\$ )(.+)$", re.MULTILINE)
PLACE = re.compile(r"(?<![\w/.$~-])((?:\.ci|\.github|bench|deploy|docs|examples|hack|packages|proto|tests)/[\w./-]*\w)")


def said(text: str) -> Iterator[str]:
    """What a page quotes as code: words in backticks, and indented or fenced lines."""
    for words, line in QUOTED.findall(text):
        yield words or line
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from block.splitlines()


def unknown_targets(text: str) -> list[str]:
    named = {target for words in said(text) if words.lstrip("$ ").startswith("make ") for target in MAKE.findall(words)}
    return sorted(named - make_targets())


def unknown_places(text: str) -> list[str]:
    named = {place for words in said(text) for place in PLACE.findall(words)}
    return sorted(place for place in named if not (ROOT / place).exists() and not (ROOT / f"{place}.py").exists())


def form_faults(form: dict[str, Any]) -> list[str]:
    """What GitHub refuses in a form, and a form in which nothing has to be answered."""
    faults = [f"no {key}" for key in ("name", "description", "body") if not form.get(key)]
    fields = [field for field in form.get("body") or [] if field["type"] != "markdown"]
    ids = [field.get("id") for field in fields]
    if None in ids or len(set(ids)) < len(ids):
        faults.append("every field needs an id of its own")
    faults += [f"{field['id']} has no label" for field in fields if not field["attributes"].get("label")]
    faults += [f"{field['id']} offers nothing" for field in fields if field["attributes"].get("options") == []]
    if not any(field.get("validations", {}).get("required") for field in fields):
        faults.append("nothing is required")
    return faults


def unchecked_files(files: list[str]) -> list[str]:
    """Python files whose types are not checked: outside mypy's folders, and in no example."""
    every = [
        path.relative_to(ROOT).as_posix()
        for folder in ("bench", "examples", "hack", "packages", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "testdata" not in path.parts
    ]
    covered = tuple(f"{name.rstrip('/')}/" for name in files)
    examples = re.compile(r"examples/[^/]+/[^/]+\.py")
    return [path for path in every if not path.startswith(covered) and not examples.fullmatch(path)]


@pytest.mark.parametrize("path", sorted(FORMS.glob("[!c]*.yml")), ids=lambda path: path.name)
def test_a_form_is_whole(path: Path) -> None:
    assert form_faults(yaml.safe_load(path.read_text(encoding="utf-8"))) == []


def test_there_is_a_form_for_each_need() -> None:
    assert {path.stem for path in FORMS.glob("*.yml")} == {"bug", "config", "driver-or-provider", "feature"}
    assert (ROOT / ".github" / "pull_request_template.md").exists()


def test_hooks_call_make() -> None:
    configuration = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = {hook["id"]: hook for repository in configuration["repos"] for hook in repository["hooks"]}
    assert {repository["repo"] for repository in configuration["repos"]} == {"local"}
    assert {hook["language"] for hook in hooks.values()} == {"system"}
    assert MAKE.findall(hooks["lint"]["entry"]) == ["lint"]


@pytest.mark.parametrize("name", ["CODE_OF_CONDUCT.md", "RELEASING.md", "SECURITY.md"])
def test_people_find_the_page(name: str) -> None:
    assert f"({name})" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"({name})" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_pages_name_targets_that_exist() -> None:
    assert {str(page): found for page in pages() if (found := unknown_targets(page.read_text(encoding="utf-8")))} == {}


def test_pages_name_files_that_exist() -> None:
    kept = [page for page in pages() if page.name != "CHANGELOG.md"]  # it names what has gone, too
    assert {str(page): found for page in kept if (found := unknown_places(page.read_text(encoding="utf-8")))} == {}


def test_types_are_checked_everywhere() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert unchecked_files(settings["files"]) == []
    lint = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint:")[2].partition("\n\n")[0]
    assert "for example in $(EXAMPLES)" in lint


def test_a_wrong_name_on_a_page_is_found() -> None:
    assert unknown_targets("Run `make nothing`.") == ["nothing"]
    assert unknown_targets("Text:\n\n    make nothing\n") == ["nothing"]
    assert unknown_targets("```console\n$ make nothing\n```") == ["nothing"]
    assert unknown_targets("It can make things; `make test` and `make lint`.") == []
    assert unknown_places("See `hack/nothing.sh` and `tests/architecture`.") == ["hack/nothing.sh"]
    assert unknown_places("See `tests/planes.py`, `tests/architecture/test_pages` and `a/docs/x`.") == []


def test_a_faulty_form_is_found() -> None:
    field = {"type": "input", "id": "x", "attributes": {"label": "X"}, "validations": {"required": True}}
    whole = {"name": "n", "description": "d", "body": [field]}
    assert form_faults(whole) == []
    assert form_faults(whole | {"name": ""})
    assert form_faults(whole | {"body": [field, field]})
    assert form_faults(whole | {"body": [field | {"validations": {}}]})
    assert form_faults(whole | {"body": [field | {"attributes": {}}]})


def test_a_file_without_checked_types_is_found() -> None:
    assert unchecked_files(["tests", "bench", "packages"])
