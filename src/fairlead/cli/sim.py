"""`fairlead sim`: the whole system in one process, on virtual time, under seeded faults."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import click

from fairlead.cli import options, values

if TYPE_CHECKING:
    from fairlead.sim.campaign import Report
    from fairlead.sim.plan import Deed
    from fairlead.sim.running import Outcome
    from fairlead.sim.scenario import Scenario

__all__ = ["command"]

_LAST_LINES = 60


@click.command("sim")
@click.option("--seed", type=click.IntRange(min=0), help="Play this seed; with --seeds the first of them.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Play so many.")
@click.option("--for", "seconds", metavar="DURATION", callback=options.optional_duration, help="Play for so long.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes that play at once.")
@click.option("--twice", is_flag=True, help="Play each seed twice, in two processes, and compare their histories.")
@click.option(
    "--scenario", "scenario_file", type=values.FILE, help="A file of sizes and fault rates. Docs: simulation.md."
)
@click.option("--steps", type=click.IntRange(min=0), help="Only so many of the things that a seed would bring.")
@click.option("--shrink", is_flag=True, help="Cut a failure down to the few things that bring it about.")
@click.option("--history", is_flag=True, help="Print all that happened, also when nothing failed.")
def command(
    *,
    seed: int | None,
    seeds: int,
    seconds: float | None,
    jobs: int,
    twice: bool,
    scenario_file: pathlib.Path | None,
    steps: int | None,
    shrink: bool,
    history: bool,
) -> int:
    """Play the whole system on virtual time, under seeded faults.

    The same seed is the same history, to the last step. Without --seed a fresh one is drawn and printed. Exit code 1
    when an invariant of the design did not hold.
    """
    from fairlead.sim import campaign
    from fairlead.sim.scenario import Scenario, ScenarioError, read_scenario

    try:
        scenario = Scenario() if scenario_file is None else read_scenario(scenario_file)
    except ScenarioError as error:
        raise click.UsageError(str(error)) from error
    first = campaign.fresh_seed() if seed is None else seed
    if seconds is None and seeds == 1 and not twice:
        return _one(first, scenario, steps, is_shrunk=shrink, is_told=history)
    if steps is not None or history:
        raise click.UsageError("--steps and --history are for one seed; give --seed and no --seeds, --for or --twice")
    count = None if seconds is not None else seeds
    # Before the first one: whoever is stopped in the middle, or dies, can be played again.
    click.echo(f"from seed {first} on")
    report = campaign.play(first, scenario, seeds=count, seconds=seconds, jobs=jobs, twice=twice)
    return _tell(report, scenario, is_shrunk=shrink)


def _one(seed: int, scenario: Scenario, steps: int | None, *, is_shrunk: bool, is_told: bool) -> int:
    from fairlead.sim.plan import plan
    from fairlead.sim.running import run

    deeds = plan(seed, scenario, steps)
    try:
        outcome = run(seed, scenario, deeds)
    except BaseException:
        click.echo(f"seed {seed} did not come to its end", err=True)
        raise
    if is_told:
        click.echo("\n".join(outcome.history))
    click.echo(_summary(outcome))
    if outcome.violation is None:
        return 0
    if is_shrunk:
        _shrink(outcome, scenario, deeds)
    elif not is_told:
        click.echo("\n".join(outcome.history[-_LAST_LINES:]))
    return 1


def _shrink(outcome: Outcome, scenario: Scenario, deeds: list[Deed]) -> None:
    from fairlead.sim.shrinking import shrink

    shrunk = shrink(outcome, scenario, deeds)
    click.echo(f"\n{len(shrunk.deeds)} of {len(deeds)} things are enough (found in {shrunk.runs} runs):")
    for deed in shrunk.deeds:
        click.echo(f"  {deed}")
    click.echo(f"on a network that {'never fails' if shrunk.scenario.network is None else 'fails as in the scenario'}:")
    click.echo("\n".join(shrunk.outcome.history))


def _summary(outcome: Outcome) -> str:
    verdict = "holds" if outcome.violation is None else f"BROKEN {outcome.violation}"
    return (
        f"seed {outcome.seed}: {verdict}; {outcome.virtual_seconds / 60:.1f} virtual minutes, "
        f"{outcome.counts['finished events']} events finished, {outcome.faults.total()} faults, hash {outcome.digest}"
    )


def _tell(report: Report, scenario: Scenario, *, is_shrunk: bool) -> int:
    from fairlead.sim.plan import plan

    for failed in report.failures:
        click.echo(_summary(failed))
    click.echo(str(report))
    if not report.failures:
        return 0
    first = report.failures[0]
    click.echo(f"\nseed {first.seed}:")
    if is_shrunk and first.violation is not None and first.violation.rule != "determinism":
        _shrink(first, scenario, plan(first.seed, scenario))
    else:
        click.echo("\n".join(first.history[-_LAST_LINES:]))
    return 1
