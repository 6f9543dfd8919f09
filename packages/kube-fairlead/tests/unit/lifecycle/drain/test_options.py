from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.lifecycle.drain import options
from kube_fairlead.lifecycle.drain.options import KUBECTL, PROFILE, DrainOptions, OptionError

ANY = st.builds(
    DrainOptions,
    force=st.booleans(),
    ignore_daemonsets=st.booleans(),
    delete_emptydir_data=st.booleans(),
    grace_period=st.integers(-2, 1000),
    timeout=st.integers(0, 10**6).map(lambda seconds: dt.timedelta(seconds=seconds)),
    pod_selector=st.sampled_from(["", "app=web", "tier!=db,app in (a,b)"]),
    disable_eviction=st.booleans(),
    skip_wait_for_delete_timeout=st.integers(0, 1000),
    priority_groups=st.sets(st.integers(-10, 10)).map(lambda groups: tuple(sorted(groups))),
)


def test_the_defaults_are_kubectls() -> None:
    assert options.spell(KUBECTL) == {
        "force": "false",
        "ignore-daemonsets": "false",
        "delete-emptydir-data": "false",
        "grace-period": "-1",
        "timeout": "0s",
        "pod-selector": "",
        "disable-eviction": "false",
        "skip-wait-for-delete-timeout": "0",
        "priority-groups": "",
    }


def test_the_profile_is_the_proposals() -> None:
    assert options.parse({}) == PROFILE
    assert (PROFILE.force, PROFILE.ignore_daemonsets, PROFILE.delete_emptydir_data) == (True, True, True)
    assert options.parse({"force": "false"}) == DrainOptions(ignore_daemonsets=True, delete_emptydir_data=True)


@given(ANY, ANY)
def test_what_is_spelt_is_read_again(wanted: DrainOptions, default: DrainOptions) -> None:
    assert options.parse(options.spell(wanted), default) == wanted


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ({"forse": "true"}, "unknown option forse; node-drain knows force, ignore-daemonsets"),
        ({"force": "yes"}, "option force: 'yes': must be true or false"),
        ({"grace-period": "1s"}, "option grace-period: '1s': must be a whole number"),
        ({"timeout": "-1s"}, "option timeout: '-1s': must not be negative"),
        ({"timeout": "1 hour"}, "option timeout: '1 hour': "),
        ({"pod-selector": "a in b"}, "option pod-selector: 'a in b': "),
        ({"priority-groups": "5,1"}, "option priority-groups: '5,1': must be rising"),
    ],
)
def test_an_invalid_option_is_reported(texts: dict[str, str], problem: str) -> None:
    with pytest.raises(OptionError) as raised:
        options.parse(texts)
    assert str(raised.value).startswith(problem)


def test_an_uncordon_knows_force_only() -> None:
    assert options.parse_uncordon({}) is False
    assert options.parse_uncordon({"force": "true"}) is True
    with pytest.raises(OptionError, match="unknown option timeout; node-uncordon knows force"):
        options.parse_uncordon({"timeout": "1s"})


def test_a_negative_grace_is_the_pods_own() -> None:
    assert DrainOptions(grace_period=-5).grace_seconds is None
    assert DrainOptions(grace_period=0).grace_seconds == 0
