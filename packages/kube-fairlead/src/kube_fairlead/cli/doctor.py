"""`fairlead doctor`: checks a cluster for problems with Fairlead. See `kube_fairlead.doctor`."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.cli import failures, shared_flags
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead.doctor.facts import Facts, Finding

__all__ = ["command"]


@click.command("doctor")
@shared_flags.cluster
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format.",
)
@shared_flags.discovered_group
@shared_flags.logging
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> int:
    """Check a cluster for problems with Fairlead, and show how to fix them.

    It changes nothing. The exit code is 1 if a check found a problem or could not run.
    """
    from kube_fairlead.doctor.checks import examine
    from kube_fairlead.doctor.facts import Severity

    facts = asyncio.run(_collect(invocation, flags))
    findings = examine(facts)
    show = _as_json if flags["output"] == "json" else _as_table
    click.echo(show(facts, findings), nl=False)
    return failures.EXIT_FAILED if any(one.severity is not Severity.INFO for one in findings) else 0


async def _collect(invocation: Invocation, flags: dict[str, Any]) -> Facts:
    from kube_fairlead import client
    from kube_fairlead.doctor import collector

    access = client.find_access(
        kubeconfig_path=flags["kubeconfig"], context=flags["kube_context"], environment=invocation.environment
    )
    async with client.connect_to(access, component="fairlead-doctor", environment=invocation.environment) as connected:
        return await collector.collect(connected, access.server, flags["lifecycle_api_group"] or "")


def _as_table(facts: Facts, findings: Sequence[Finding]) -> str:
    return "\n".join(_lines(facts, findings)) + "\n"


def _lines(facts: Facts, findings: Sequence[Finding]) -> Iterator[str]:
    from kube_fairlead.cli.text_tables import aligned

    yield f"API server {facts.url}" + (f", {facts.version.found}" if facts.version.found else "")
    yield ""
    rows = [["CHECK", "RESULT"], *([name, result] for name, result in _results(facts, findings))]
    yield aligned(rows).rstrip("\n")
    for one in findings:
        yield ""
        yield f"{one.severity.upper()} {one.check}{f' {one.object}' if one.object else ''}"
        yield f"  {one.problem}"
        yield f"  Fix: {one.fix}"


def _as_json(facts: Facts, findings: Sequence[Finding]) -> str:
    from kube_fairlead.api.time import format_time

    document = {
        "time": format_time(facts.now),
        "server": {"url": facts.url, "version": facts.version.found or ""},
        "checks": [{"name": name, "result": result} for name, result in _results(facts, findings)],
        "findings": [
            {
                "check": one.check,
                "object": one.object,
                "severity": one.severity.value,
                "problem": one.problem,
                "fix": one.fix,
            }
            for one in findings
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _results(facts: Facts, findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Each check and its result."""
    from kube_fairlead.doctor.checks import CHECKS

    for number, (name, _) in enumerate(CHECKS):
        counted = Counter(one.severity.value for one in findings if one.check == name)
        if number and not facts.version.found:
            yield name, "not checked"
        else:
            yield name, ", ".join(f"{count} {severity}" for severity, count in counted.items()) or "ok"
