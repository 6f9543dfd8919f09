"""`fairlead sim`: the whole system in one process, on virtual time, under seeded faults."""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from kube_fairlead.cli import options, values

if TYPE_CHECKING:
    from kube_fairlead_lab.sim.campaign import Report
    from kube_fairlead_lab.sim.plan import Action
    from kube_fairlead_lab.sim.runner import Outcome
    from kube_fairlead_lab.sim.scenario import Scenario
    from kube_fairlead_lab.sim.shrinker import Shrunk

__all__ = ["command"]

_BROKEN = 1
_INTERRUPTED = 130
_NUMBER_MAX = 1_000_000
_RUNS_BETWEEN_REPORTS = 10


def _numbers(ctx: click.Context, parameter: click.Parameter, value: str | None) -> frozenset[int] | None:
    """A callback for numbers with commas between them, and ranges of such."""
    if value is None:
        return None
    chosen: set[int] = set()
    for part in value.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            low, high = int(first), int(last if dash else first)
        except ValueError as error:
            raise click.BadParameter(f"{part.strip()!r} is no number; such as 3,17,40-45", ctx, parameter) from error
        if not 1 <= low <= high <= _NUMBER_MAX:
            raise click.BadParameter(f"{part.strip()!r} is no range of numbers from 1 on", ctx, parameter)
        chosen.update(range(low, high + 1))
    return frozenset(chosen)


class _Asked(NamedTuple):
    """How a failure is to be printed."""

    scenario: Scenario
    flags: tuple[str, ...]  # those that make this world, for commands that play it again
    is_shrunk: bool
    with_history: bool  # all of it


@click.command("sim")
@click.option("--seed", type=click.IntRange(min=0), help="Play this seed; with --seeds or --for the first of them.")
@click.option("--seeds", type=click.IntRange(min=1), help="Play so many, one after the other.  [default: 1]")
@click.option("--for", "seconds", metavar="DURATION", callback=options.optional_duration, help="Play for so long.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes that play at once.")
@click.option("--twice", is_flag=True, help="Play each seed twice, in two processes, and compare their histories.")
@click.option(
    "--scenario", "scenario_file", type=values.FILE, help="A file of sizes and fault rates. Docs: simulation.md."
)
@click.option("--steady-network", is_flag=True, help="A network that never fails, whatever the scenario says.")
@click.option("--steps", type=click.IntRange(min=0), help="Only so many of the actions that a seed brings.")
@click.option("--only", metavar="NUMBERS", callback=_numbers, help="Only these actions of a seed, such as 3,17,40-45.")
@click.option("--shrink", is_flag=True, help="Cut a failure down to the few actions that bring it about.")
@click.option("--history", is_flag=True, help="Print all that happened, also when nothing failed.")
def command(
    *,
    seed: int | None,
    seeds: int | None,
    seconds: float | None,
    jobs: int,
    twice: bool,
    scenario_file: pathlib.Path | None,
    steady_network: bool,
    steps: int | None,
    only: frozenset[int] | None,
    shrink: bool,
    history: bool,
) -> int:
    """Play the whole system on virtual time, under seeded faults.

    The same seed is the same history, to the last step. Without --seed a fresh one is drawn and printed. Exit code 1
    when an invariant of the design did not hold; then what led to it is printed: who did what at which virtual second.
    Numbers in brackets are those of the actions, for --only.
    """
    from kube_fairlead_lab.sim import campaign

    asked = _Asked(
        _scenario(scenario_file, is_steady=steady_network),
        (
            *(() if scenario_file is None else ("--scenario", str(scenario_file))),
            *(("--steady-network",) if steady_network else ()),
        ),
        is_shrunk=shrink,
        with_history=history,
    )
    first = campaign.fresh_seed() if seed is None else seed
    if seconds is None and seeds in {None, 1} and not twice:
        if only is not None and seed is None:
            raise click.UsageError("--only is about the actions of one seed; give --seed, too")
        return _one(first, _actions(first, asked.scenario, steps, only), asked)
    if steps is not None or history or only is not None:
        raise click.UsageError(
            "--steps, --only and --history are for one seed; give --seed and no --seeds, --for or --twice"
        )
    count = None if seconds is not None and seeds is None else seeds or 1
    # Before the first one: whoever is stopped in the middle, or dies, can be played again.
    click.echo(f"from seed {first} on")
    report = campaign.play(
        first,
        asked.scenario,
        seeds=count,
        seconds=seconds,
        jobs=jobs,
        twice=twice,
        on_failure=lambda failed: click.echo(_summary(failed)),
    )
    return _print_report(report, asked)


def _scenario(path: pathlib.Path | None, *, is_steady: bool) -> Scenario:
    import msgspec

    from kube_fairlead_lab.sim.scenario import Scenario, ScenarioError, read_scenario

    try:
        scenario = Scenario() if path is None else read_scenario(path)
    except ScenarioError as error:
        raise click.UsageError(str(error)) from error
    return msgspec.structs.replace(scenario, network=None) if is_steady else scenario


def _actions(seed: int, scenario: Scenario, steps: int | None, only: frozenset[int] | None) -> list[Action]:
    from kube_fairlead_lab.sim.plan import plan

    actions = plan(seed, scenario, steps)
    if only is None:
        return actions
    if missing := sorted(only - {action.number for action in actions}):
        raise click.UsageError(f"--only: there is no action {missing[0]}; seed {seed} has {len(actions)} of them here")
    return [action for action in actions if action.number in only]


def _one(seed: int, actions: list[Action], asked: _Asked) -> int:
    from kube_fairlead_lab.sim.child_process import run_in_child

    try:
        outcome = run_in_child(seed, asked.scenario, actions, with_history=asked.with_history)
    except BaseException:
        click.echo(f"seed {seed} did not come to its end", err=True)
        raise
    if asked.with_history and not (asked.is_shrunk and outcome.violation is not None):
        click.echo("\n".join(map(str, outcome.history)))
    click.echo(_summary(outcome))
    return 0 if outcome.violation is None else _explain(outcome, actions, asked)


def _explain(outcome: Outcome, actions: Sequence[Action], asked: _Asked) -> int:
    """Say what led to a failure; the exit code."""
    # What the simulation itself died of, and histories that differ, cannot be looked for by playing again.
    if (
        asked.is_shrunk
        and outcome.history
        and outcome.violation is not None
        and outcome.violation.rule != "determinism"
    ):
        return _shrink(outcome, actions, asked)
    if not asked.with_history:
        _print_relevant(outcome)
    if outcome.violation is not None and outcome.violation.rule == "determinism":
        asked = asked._replace(flags=(*asked.flags, "--twice"), is_shrunk=True)
    click.echo(f"\nagain: {_again(outcome.seed, asked, actions)}")
    if not asked.is_shrunk:
        click.echo("--shrink looks for the few actions that are enough")
    return _BROKEN


def _print_relevant(outcome: Outcome) -> None:
    from kube_fairlead_lab.sim.narration.relevance import relevant_entries

    if outcome.violation is None or not outcome.history:
        return
    extract = relevant_entries(outcome.history, outcome.violation)
    others = f" ({extract.left_out} other lines are left out; --history prints all)" if extract.left_out else ""
    click.echo(f"\nwhat led to it{others}:")
    click.echo("\n".join(extract.lines))


def _shrink(outcome: Outcome, actions: Sequence[Action], asked: _Asked) -> int:
    from kube_fairlead_lab.sim.child_process import run_in_child
    from kube_fairlead_lab.sim.shrinker import shrink

    printed = len(actions)

    def progress(runs: int, left: int) -> None:
        nonlocal printed
        if left < printed or runs % _RUNS_BETWEEN_REPORTS == 0:
            click.echo(f"shrinking: after {runs} runs {left} of {len(actions)} actions are left", err=True)
        printed = left

    shrunk = shrink(outcome, asked.scenario, actions, play=run_in_child, on_run=progress)
    _print_shrunk(shrunk, len(actions), asked)
    return _INTERRUPTED if shrunk.is_interrupted else _BROKEN


def _print_shrunk(shrunk: Shrunk, before: int, asked: _Asked) -> None:
    how = f"{shrunk.runs} runs{', ' if shrunk.cut_short else ''}{shrunk.cut_short}"
    click.echo(f"\n{len(shrunk.actions)} of {before} actions are enough ({how}):")
    for action in shrunk.actions:
        click.echo(f"  {action}")
    is_steady = shrunk.scenario.network is None
    click.echo(f"on a network that {'never fails' if is_steady else 'fails as in the scenario'}:")
    click.echo(_summary(shrunk.outcome))
    if asked.with_history:
        click.echo("\n".join(map(str, shrunk.outcome.history)))
    else:
        _print_relevant(shrunk.outcome)
    if is_steady and asked.scenario.network is not None:
        asked = asked._replace(flags=(*asked.flags, "--steady-network"))
    click.echo(f"\nagain: {_again(shrunk.outcome.seed, asked, shrunk.actions)}")


def _again(seed: int, asked: _Asked, actions: Sequence[Action]) -> str:
    """The command that plays exactly this."""
    from kube_fairlead_lab.sim.plan import plan

    numbers = [action.number for action in actions]
    chosen: tuple[str, ...] = ()
    if numbers != list(range(1, len(numbers) + 1)):
        chosen = ("--only", _ranges(numbers))
    elif len(numbers) < len(plan(seed, asked.scenario)):
        chosen = ("--steps", str(len(numbers)))
    words = (*click.get_current_context().command_path.split(), "--seed", str(seed), *asked.flags, *chosen)
    return shlex.join(words)


def _ranges(numbers: Sequence[int]) -> str:
    """As `--only` takes them: 3,17,40-45."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _summary(outcome: Outcome) -> str:
    verdict = "holds" if outcome.violation is None else f"BROKEN {outcome.violation}"
    return (
        f"seed {outcome.seed}: {verdict}; {outcome.virtual_seconds / 60:.1f} virtual minutes, "
        f"{outcome.counts['finished events']} events finished, {outcome.faults.total()} faults, hash {outcome.digest}"
    )


def _print_report(report: Report, asked: _Asked) -> int:
    from kube_fairlead_lab.sim.plan import plan

    click.echo(str(report))
    if report.failures:
        first = report.failures[0]
        click.echo(f"\nseed {first.seed}:")
        if report.is_interrupted:
            asked = asked._replace(is_shrunk=False)
        code = _explain(first, plan(first.seed, asked.scenario), asked)
    else:
        code = 0
    return _INTERRUPTED if report.is_interrupted else code
