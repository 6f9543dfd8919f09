"""The help of every command, of all three distributions: a verb first, then flags with their units and defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
import pytest

from kube_fairlead.cli import commands, flag_values
from kube_fairlead.cli.main import program

# The first words of the commands' help. A new command adds its verb.
VERBS = frozenset(
    {
        "Check",
        "Claim",
        "Copy",
        "Drain",
        "Install",
        "Make",
        "Print",
        "Restore",
        "Run",
        "Serve",
        "Show",
        "Simulate",
        "Stop",
    }
)
# First words of a flag's help that leave open what the flag sets.
VAGUE = frozenset({"A", "An", "It", "The", "Where", "Whether", "Who"})
DURATIONS = (flag_values.duration, flag_values.duration_or_zero, flag_values.optional_duration)


def every_command() -> Iterator[tuple[str, click.Command]]:
    with click.Context(program) as context:
        found = [(entry.name, program.get_command(context, entry.name)) for entry in commands.COMMANDS]
        while found:
            name, command = found.pop(0)
            assert command is not None
            yield name, command
            if isinstance(command, click.Group):
                found += [
                    (f"{name} {sub}", command.get_command(context, sub)) for sub in command.list_commands(context)
                ]


def bad_flags(is_good: Callable[[click.Option], bool]) -> list[str]:
    return [
        f"{name} {option.opts[0]}: {option.help}"
        for name, command in every_command()
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and not is_good(option)
    ]


def shows_its_default(option: click.Option) -> bool:
    has_none = option.multiple or option.to_info_dict()["default"] in (None, "", False)
    return has_none or bool(option.show_default) or "[default:" in (option.help or "")


def says_what_it_sets(option: click.Option) -> bool:
    text = option.help or ""
    return text.endswith((".", "]")) and text.split()[0] not in VAGUE


def names_its_unit(option: click.Option) -> bool:
    with click.Context(program) as context:
        return option.callback not in DURATIONS or option.make_metavar(context) == "DURATION"


def test_the_help_of_a_command_begins_with_a_verb() -> None:
    first = {name: (command.help or "").split("\n\n")[0].split() for name, command in every_command()}
    assert len(first) > len(commands.COMMANDS)
    assert [name for name, words in first.items() if words[0] not in VERBS or not words[-1].endswith(".")] == []


@pytest.mark.parametrize("is_good", [says_what_it_sets, shows_its_default, names_its_unit])
def test_every_flag(is_good: Callable[[click.Option], bool]) -> None:
    assert bad_flags(is_good) == []


@pytest.mark.parametrize(
    ("option", "is_good"),
    [
        (click.Option(["--state-dir"], help="Where the agent keeps its name."), says_what_it_sets),
        (click.Option(["--nodes"], help="Number of nodes"), says_what_it_sets),
        (click.Option(["--nodes"], default=3, help="Number of nodes."), shows_its_default),
        (click.Option(["--timeout"], callback=flag_values.duration, help="Time limit."), names_its_unit),
    ],
)
def test_a_bad_flag_is_found(option: click.Option, is_good: Callable[[click.Option], bool]) -> None:
    assert not is_good(option)
