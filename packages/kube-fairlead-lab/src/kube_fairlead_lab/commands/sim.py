"""`fairlead sim`: simulates all components in one process, on virtual time, with seeded faults."""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from kube_fairlead.cli import flag_values

if TYPE_CHECKING:
    from kube_fairlead_lab.sim.action_plan import Action
    from kube_fairlead_lab.sim.campaign import Report
    from kube_fairlead_lab.sim.runner import Outcome
    from kube_fairlead_lab.sim.scenario import Scenario
    from kube_fairlead_lab.sim.shrinker import ShrinkResult

__all__ = ["command"]

_FAILED = 1
_INTERRUPTED = 130
_NUMBER_MAX = 1_000_000
_RUNS_BETWEEN_REPORTS = 10


def _numbers(ctx: click.Context, parameter: click.Parameter, value: str | None) -> frozenset[int] | None:
    """Parse a comma-separated list of numbers and ranges."""
    if value is None:
        return None
    chosen: set[int] = set()
    for part in value.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            low, high = int(first), int(last if dash else first)
        except ValueError as error:
            raise click.BadParameter(
                f"{part.strip()!r} is not a number; expected a list such as 3,17,40-45", ctx, parameter
            ) from error
        if not 1 <= low <= high <= _NUMBER_MAX:
            raise click.BadParameter(f"{part.strip()!r} is not a range of numbers from 1 up", ctx, parameter)
        chosen.update(range(low, high + 1))
    return frozenset(chosen)


class _Request(NamedTuple):
    """What to run, and how to report a failure."""

    scenario: Scenario
    flags: tuple[str, ...]  # flags that select the scenario, for the command that repeats the run
    is_shrunk: bool
    with_history: bool  # print the whole history


@click.command("sim")
@click.option(
    "--seed", type=click.IntRange(min=0), help="Seed to run; with --seeds or --for the first one.  [default: random]"
)
@click.option("--seeds", type=click.IntRange(min=1), help="Number of seeds to run.  [default: 1]")
@click.option(
    "--for",
    "seconds",
    metavar="DURATION",
    callback=flag_values.optional_duration,
    help="Start new seeds for this time; running ones finish.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Number of parallel processes.")
@click.option("--twice", is_flag=True, help="Run each seed in two processes and compare the histories.")
@click.option(
    "--scenario",
    "scenario_file",
    type=flag_values.FILE,
    help="YAML file with cluster sizes and fault rates. Docs: simulation.md.",
)
@click.option("--steady-network", is_flag=True, help="Run without network faults, also if the scenario has them.")
@click.option(
    "--steps", type=click.IntRange(min=0), help="Run only this number of the seed's first actions.  [default: all]"
)
@click.option(
    "--only",
    metavar="NUMBERS",
    callback=_numbers,
    help="Run only these actions of the seed, such as 3,17,40-45.  [default: all]",
)
@click.option("--shrink", is_flag=True, help="Search for the fewest actions that cause the same failure.")
@click.option("--history", is_flag=True, help="Print the whole history, also without a failure.")
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
    """Simulate all components on virtual time, with random faults, and check the invariants.

    A seed, a number, plans the actions of a run: faults, and requests of users. The same seed always gives the same
    history. Without --seed a random seed is used and printed. The exit code is 1 if an invariant is violated; the
    output then shows which actor did what at which virtual second before the violation. Numbers in brackets are numbers
    of actions, for --only.
    """
    from kube_fairlead_lab.sim import campaign

    request = _Request(
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
            raise click.UsageError("--only selects actions of one seed: --seed is required")
        return _one(first, _actions(first, request.scenario, steps, only), request)
    if steps is not None or history or only is not None:
        raise click.UsageError(
            "--steps, --only and --history need a single seed: use --seed without --seeds, --for and --twice"
        )
    count = None if seconds is not None and seeds is None else seeds or 1
    # Printed first, so that a run that is interrupted or crashes can be repeated.
    click.echo(f"first seed: {first}")
    report = campaign.play(
        first,
        request.scenario,
        seeds=count,
        seconds=seconds,
        jobs=jobs,
        twice=twice,
        on_failure=lambda failed: click.echo(_summary(failed)),
    )
    return _print_report(report, request)


def _scenario(path: pathlib.Path | None, *, is_steady: bool) -> Scenario:
    import msgspec

    from kube_fairlead_lab.sim.scenario import Scenario, ScenarioError, read_scenario

    try:
        scenario = Scenario() if path is None else read_scenario(path)
    except ScenarioError as error:
        raise click.UsageError(str(error)) from error
    return msgspec.structs.replace(scenario, network=None) if is_steady else scenario


def _actions(seed: int, scenario: Scenario, steps: int | None, only: frozenset[int] | None) -> list[Action]:
    from kube_fairlead_lab.sim.action_plan import plan

    actions = plan(seed, scenario, steps)
    if only is None:
        return actions
    if missing := sorted(only - {action.number for action in actions}):
        raise click.UsageError(f"--only: no action {missing[0]}; seed {seed} has {len(actions)} actions here")
    return [action for action in actions if action.number in only]


def _one(seed: int, actions: list[Action], request: _Request) -> int:
    from kube_fairlead_lab.sim.child_process import run_in_child

    try:
        outcome = run_in_child(seed, request.scenario, actions, with_history=request.with_history)
    except BaseException:
        click.echo(f"seed {seed} did not finish", err=True)
        raise
    if request.with_history and not (request.is_shrunk and outcome.violation is not None):
        click.echo("\n".join(map(str, outcome.history)))
    click.echo(_summary(outcome))
    return 0 if outcome.violation is None else _explain(outcome, actions, request)


def _explain(outcome: Outcome, actions: Sequence[Action], request: _Request) -> int:
    """Print what led to a failure; return the exit code."""
    # A crash of the simulation, and histories that differ, cannot be shrunk.
    if (
        request.is_shrunk
        and outcome.history
        and outcome.violation is not None
        and outcome.violation.rule != "determinism"
    ):
        return _shrink(outcome, actions, request)
    if not request.with_history:
        _print_relevant(outcome)
    if outcome.violation is not None and outcome.violation.rule == "determinism":
        request = request._replace(flags=(*request.flags, "--twice"), is_shrunk=True)
    click.echo(f"\nrepeat: {_repeat_command(outcome.seed, request, actions)}")
    if not request.is_shrunk:
        click.echo("use --shrink to search for the fewest actions that cause it")
    return _FAILED


def _print_relevant(outcome: Outcome) -> None:
    from kube_fairlead_lab.sim.narration.relevance import relevant_entries

    if outcome.violation is None or not outcome.history:
        return
    extract = relevant_entries(outcome.history, outcome.violation)
    others = f" ({extract.omitted} other lines omitted; --history prints all)" if extract.omitted else ""
    click.echo(f"\nwhat led to it{others}:")
    click.echo("\n".join(extract.lines))


def _shrink(outcome: Outcome, actions: Sequence[Action], request: _Request) -> int:
    from kube_fairlead_lab.sim.child_process import run_in_child
    from kube_fairlead_lab.sim.shrinker import shrink

    printed = len(actions)

    def progress(runs: int, left: int) -> None:
        nonlocal printed
        if left < printed or runs % _RUNS_BETWEEN_REPORTS == 0:
            click.echo(f"shrinking: {left} of {len(actions)} actions left after {runs} runs", err=True)
        printed = left

    shrunk = shrink(outcome, request.scenario, actions, play=run_in_child, on_run=progress)
    _print_shrunk(shrunk, len(actions), request)
    return _INTERRUPTED if shrunk.is_interrupted else _FAILED


def _print_shrunk(shrunk: ShrinkResult, before: int, request: _Request) -> None:
    how = f"{shrunk.runs} runs{', ' if shrunk.cut_short else ''}{shrunk.cut_short}"
    click.echo(f"\n{len(shrunk.actions)} of {before} actions cause the failure ({how}):")
    for action in shrunk.actions:
        click.echo(f"  {action}")
    is_steady = shrunk.scenario.network is None
    click.echo("without network faults:" if is_steady else "with the network faults of the scenario:")
    click.echo(_summary(shrunk.outcome))
    if request.with_history:
        click.echo("\n".join(map(str, shrunk.outcome.history)))
    else:
        _print_relevant(shrunk.outcome)
    if is_steady and request.scenario.network is not None:
        request = request._replace(flags=(*request.flags, "--steady-network"))
    click.echo(f"\nrepeat: {_repeat_command(shrunk.outcome.seed, request, shrunk.actions)}")


def _repeat_command(seed: int, request: _Request, actions: Sequence[Action]) -> str:
    """Return the command that repeats exactly this run."""
    from kube_fairlead_lab.sim.action_plan import plan

    numbers = [action.number for action in actions]
    chosen: tuple[str, ...] = ()
    if numbers != list(range(1, len(numbers) + 1)):
        chosen = ("--only", _ranges(numbers))
    elif len(numbers) < len(plan(seed, request.scenario)):
        chosen = ("--steps", str(len(numbers)))
    words = (*click.get_current_context().command_path.split(), "--seed", str(seed), *request.flags, *chosen)
    return shlex.join(words)


def _ranges(numbers: Sequence[int]) -> str:
    """In the format of `--only`: 3,17,40-45."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _summary(outcome: Outcome) -> str:
    verdict = "passed" if outcome.violation is None else f"FAILED {outcome.violation}"
    return (
        f"seed {outcome.seed}: {verdict}; {outcome.virtual_seconds / 60:.1f} virtual minutes, "
        f"{outcome.counts['finished events']} events finished, {outcome.faults.total()} faults, hash {outcome.digest}"
    )


def _print_report(report: Report, request: _Request) -> int:
    from kube_fairlead_lab.sim.action_plan import plan

    click.echo(str(report))
    if report.failures:
        first = report.failures[0]
        click.echo(f"\nseed {first.seed}:")
        if report.is_interrupted:
            request = request._replace(is_shrunk=False)
        code = _explain(first, plan(first.seed, request.scenario), request)
    else:
        code = 0
    return _INTERRUPTED if report.is_interrupted else code
