"""A module that mirrors Kubernetes names its upstream files in one fixed form (hack/upstream/provenance.py)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from hack.upstream import provenance, worklist
from kube_fairlead_lab.testing import require_real
from tests.architecture.source import Source, assert_clean, fairlead_modules, snippet

# Every module in these packages follows upstream files, or is in OUR_OWN. Others may name files too.
MIRRORING = (
    "kube_fairlead.api",
    "kube_fairlead.client",
    "kube_fairlead.cloud.controllers",
    "kube_fairlead.cloud.decisions",
    "kube_fairlead.election",
    "kube_fairlead.lifecycle.drain",
    "kube_fairlead_apiserver.admission",
    "kube_fairlead_apiserver.cel",
    "kube_fairlead_apiserver.crd",
    "kube_fairlead_apiserver.flowcontrol",
    "kube_fairlead_apiserver.controllers",
    "kube_fairlead_apiserver.observability",
    "kube_fairlead_apiserver.openapi",
    "kube_fairlead_apiserver.operations",
    "kube_fairlead_apiserver.patch",
    "kube_fairlead_apiserver.printers",
    "kube_fairlead_apiserver.registry",
    "kube_fairlead_apiserver.reviews",
    "kube_fairlead_apiserver.schema",
    "kube_fairlead_apiserver.security",
    "kube_fairlead_apiserver.subresources",
    "kube_fairlead_apiserver.types",
    "kube_fairlead_apiserver.verbs",
    "kube_fairlead_lab.hollow.workloads",
)

# Modules in those packages that mirror nothing of Kubernetes: our own kinds and machinery, RFCs, Go's standard library.
OUR_OWN = frozenset(
    {
        "kube_fairlead.api.crdrules",
        "kube_fairlead.api.crds",
        "kube_fairlead.api.golang",
        "kube_fairlead.api.json_object",
        "kube_fairlead.api.layout",
        "kube_fairlead.api.lifecycle_v1alpha1",
        "kube_fairlead.api.parts",
        "kube_fairlead.api.recordrules",
        "kube_fairlead.api.reserved",
        "kube_fairlead.api.scheme",
        "kube_fairlead.api.selectors.compact",
        "kube_fairlead.api.validation.lifecycle",
        "kube_fairlead.api.wire",
        "kube_fairlead.client.server_access",
        "kube_fairlead.client.client",
        "kube_fairlead.client.codecs",
        "kube_fairlead.client.connection",
        "kube_fairlead.client.errors",
        "kube_fairlead.client.http",
        "kube_fairlead.client.http1",
        "kube_fairlead.client.httperrors",
        "kube_fairlead.client.inprocess",
        "kube_fairlead.client.lifecyclegroup",
        "kube_fairlead.client.objects",
        "kube_fairlead.client.patches",
        "kube_fairlead.client.proxies",
        "kube_fairlead.client.resources",
        "kube_fairlead.client.subresources",
        "kube_fairlead.client.tls",
        "kube_fairlead.client.transport",
        "kube_fairlead.election.errors",
        "kube_fairlead.election.fence",
        "kube_fairlead.election.guard",
        "kube_fairlead.election.kopf_operator",
        "kube_fairlead.election.term",
        "kube_fairlead.lifecycle.drain.pod_progress",
        "kube_fairlead.lifecycle.drain.rollout",
        "kube_fairlead_apiserver.admission.builtin.lifecycle_requester",
        "kube_fairlead_apiserver.admission.object_reader",
        "kube_fairlead_apiserver.admission.webhooks.sender",
        "kube_fairlead_apiserver.cel.regex",
        "kube_fairlead_apiserver.cel.steps",
        "kube_fairlead_apiserver.flowcontrol.step_scheduler",
        "kube_fairlead_apiserver.flowcontrol.queue_set",
        "kube_fairlead_apiserver.flowcontrol.fair_queue",
        "kube_fairlead_apiserver.controllers.loop",
        "kube_fairlead_apiserver.openapi.descriptions",
        "kube_fairlead_apiserver.openapi.endpoints",
        "kube_fairlead_apiserver.operations.core",
        "kube_fairlead_apiserver.operations.internal_client",
        "kube_fairlead_apiserver.patch.depth_limit",
        "kube_fairlead_apiserver.patch.json_equality",
        "kube_fairlead_apiserver.patch.goformat",
        "kube_fairlead_apiserver.patch.value_limit",
        "kube_fairlead_apiserver.registry.builtin",
        "kube_fairlead_apiserver.registry.catalog",
        "kube_fairlead_apiserver.registry.lifecycle",
        "kube_fairlead_apiserver.registry.resource",
        "kube_fairlead_apiserver.registry.strategies.converted",
        "kube_fairlead_apiserver.registry.strategies.by_resource",
        "kube_fairlead_apiserver.schema.comparison_budget",
        "kube_fairlead_apiserver.security.private_files",
        "kube_fairlead_apiserver.security.kubeconfig",
        "kube_fairlead_apiserver.security.pki.authority",
        "kube_fairlead_apiserver.security.pki.credentials",
        "kube_fairlead_apiserver.security.pki.jose",
        "kube_fairlead_apiserver.security.pki.keyring",
        "kube_fairlead_apiserver.types.builtin_data",
        "kube_fairlead_apiserver.types.fields",
        "kube_fairlead_apiserver.types.schemas",
    }
)


def upstream_faults(source: Source) -> list[str]:
    """The paragraph has the fixed form, and each version is one that hack/kube pins."""
    try:
        files = provenance.read(ast.get_docstring(source.tree) or "")
    except provenance.Malformed as fault:
        return [source.finding(1, f"the Upstream paragraph {fault}")]
    pins = [provenance.pinned_versions(minor) for minor in provenance.pinned_minors()]
    return [
        source.finding(1, f"names {file}, which is not a version that hack/kube pins")
        for file in files
        if file.version not in {pin.get(file.module) for pin in pins}
    ]


def missing_upstream(source: Source) -> list[str]:
    """A module of a mirroring package names its upstream files, or is known to have none, never both."""
    if source.is_package or not source.name.startswith(tuple(f"{package}." for package in MIRRORING)):
        return []
    named = "\nUpstream:" in (ast.get_docstring(source.tree) or "")
    if source.name in OUR_OWN:
        return [source.finding(1, "names upstream files and is in OUR_OWN; it can be only one")] if named else []
    return [] if named else [source.finding(1, "names no upstream files; name them, or add the module to OUR_OWN")]


def test_upstream_files_are_named_in_the_fixed_form() -> None:
    assert_clean(fairlead_modules(), upstream_faults)


def test_modules_that_mirror_kubernetes_name_their_upstream_files() -> None:
    assert_clean(fairlead_modules(), missing_upstream)


def test_the_lists_name_what_is_there() -> None:
    names = {source.name for source in fairlead_modules()}
    assert names >= OUR_OWN, f"not there any more: {sorted(OUR_OWN - names)}"
    assert set(MIRRORING) <= names, f"not there any more: {sorted(set(MIRRORING) - names)}"
    assert all(name.startswith(tuple(f"{package}." for package in MIRRORING)) for name in OUR_OWN)


@pytest.mark.kube
def test_every_named_file_exists_at_its_version() -> None:
    modules = list(provenance.modules())
    assert len(modules) > 300, "the Upstream paragraphs are not found"
    wanted: dict[str, dict[str, str]] = {}
    pins = {minor: provenance.pinned_versions(minor) for minor in provenance.pinned_minors()}
    for file in (file for module in modules for file in module.files):
        minor = next(minor for minor, pin in pins.items() if pin.get(file.module) == file.version)
        wanted.setdefault(minor, {})[file.module] = file.version
    folders: dict[tuple[str, str], Path] = {}
    for minor, versions in wanted.items():
        try:
            found = worklist.sources(minor, versions)
        except worklist.SourcesMissing as error:
            require_real("the source of the pinned Kubernetes", present=False, remedy=str(error))
        folders |= {(module, versions[module]): folder for module, folder in found.items()}
    absent = [
        f"{module.name} names {file}"
        for module in modules
        for file in module.files
        if not (folders[file.module, file.version] / file.path).is_file()
    ]
    assert not absent, "\n".join(["files that are not there:", *absent])


_FILE = "k8s.io/apiserver@v0.36.4/pkg/registry/rest/delete.go"
_OTHER = "sigs.k8s.io/structured-merge-diff/v6@v6.3.3/merge/update.go"


@pytest.mark.parametrize(
    "paragraph",
    [
        f"Upstream: {_FILE}.",
        f"Upstream: {_FILE},",
        f"Upstream: {_FILE}, {_OTHER}",
        f"Upstream: {_FILE}\n    {_OTHER}",
        f"Upstream: {_FILE},\n{_OTHER}",
        f"Upstream: {_FILE},\n    {_FILE}",
        f"Upstream:\n    {_FILE}",
        f"upstream: {_FILE}",
        f"More.\n\n  Upstream: {_FILE}",
        f"Upstream: {_FILE}\n\nMore text.",
        f"Upstream: {_FILE}\n\nUpstream: {_OTHER}",
        "Upstream: k8s.io/apiserver/pkg/registry/rest/delete.go",
        "Upstream: k8s.io/apiserver@v0.36.4",
        "Upstream: k8s.io/apiserver@v0.36.3/pkg/registry/rest/delete.go",
        "Upstream: k8s.io/kubernetes@v0.36.4/pkg/registry/rest/delete.go",
        "Upstream: example.com/unknown@v1.0.0/a.go",
        "Upstream: none",
    ],
)
def test_a_wrong_form_is_found(paragraph: str) -> None:
    assert upstream_faults(snippet(f'"""Deletes.\n\n{paragraph}\n"""'))


def test_the_paragraph_stands_alone() -> None:
    assert upstream_faults(snippet(f'"""Upstream: {_FILE}"""'))
    assert upstream_faults(snippet(f'"""Deletes.\nUpstream: {_FILE}\n"""'))


def test_the_fixed_form_passes() -> None:
    text = f'"""Deletes.\n\nUpstream: {_FILE},\n    {_OTHER}\n"""'
    assert upstream_faults(snippet(text)) == []
    assert [str(file) for file in provenance.read(ast.get_docstring(ast.parse(text)) or "")] == [_FILE, _OTHER]
    assert provenance.read("Speaks of upstream: in passing.") == ()


def test_a_missing_paragraph_is_found() -> None:
    named = f'"""Deletes.\n\nUpstream: {_FILE}\n"""'
    assert missing_upstream(snippet('"""Deletes."""', "kube_fairlead_apiserver.verbs.probe"))
    assert missing_upstream(snippet(named, "kube_fairlead_apiserver.verbs.probe")) == []
    assert missing_upstream(snippet('"""Deletes."""', "kube_fairlead_apiserver.storage.probe")) == []
    assert missing_upstream(snippet('"""A charter."""', "kube_fairlead_apiserver.verbs", is_package=True)) == []


def test_a_module_is_not_both_mirrored_and_our_own() -> None:
    own = min(OUR_OWN)
    assert missing_upstream(snippet('"""Ours."""', own)) == []
    assert missing_upstream(snippet(f'"""Ours.\n\nUpstream: {_FILE}\n"""', own))
