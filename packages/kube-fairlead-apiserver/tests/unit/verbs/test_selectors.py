from __future__ import annotations

from collections.abc import Iterator

import pytest

from kube_fairlead.api.selectors import FieldMatcher, FieldRequirement, parse_field_selector
from kube_fairlead_apiserver.verbs import selectors


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("type=a", ("type", "a")),
        ("type!=a", None),
        ("type!=b,type=a", ("type", "a")),
        ("type!=b,data!=x,type=a", ("type", "a")),
        ("type=,data=x", ("data", "x")),
        ("type=a,type=b", ("type", "a")),
        ("metadata.name=x,type=a", ("type", "a")),
        ("metadata.name=x,metadata.namespace=y", None),
    ],
)
def test_the_first_field_with_one_value_is_looked_up(selector: str, expected: tuple[str, str] | None) -> None:
    assert selectors._indexable(parse_field_selector(selector)) == expected


def test_a_long_selector_is_read_a_fixed_number_of_times() -> None:
    def read(count: int) -> int:
        seen = 0

        class Counted(tuple[FieldRequirement, ...]):
            __slots__ = ()

            def __iter__(self) -> Iterator[FieldRequirement]:
                nonlocal seen
                for requirement in super().__iter__():
                    seen += 1
                    yield requirement

        requirements = parse_field_selector(",".join(f"type!=a{i}" for i in range(count))).requirements
        assert selectors._indexable(FieldMatcher(Counted(requirements))) is None
        return seen

    assert read(200) == 2 * read(100)
