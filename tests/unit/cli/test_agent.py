from __future__ import annotations

import pytest

from fairlead.base.environment import Environment
from fairlead.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--registry-dir", "/" + "f" * 80], "it may have at most 80, because the path of a unix socket"),
        (["--node-name=Not A Node"], "is no node's name"),
        (["--driver-wait-timeout=0s"], "must be positive"),
        (["--finished-event-ttl=-1s"], "must be positive"),
        (["--feature-gates=Nonsense=true"], "unrecognized feature gate: Nonsense"),
    ],
)
def test_bad_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", *arguments], environment=Environment({})) == 2
    assert words in capsys.readouterr().err
