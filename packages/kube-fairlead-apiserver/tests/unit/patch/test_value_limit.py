from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_fairlead.api.yamltext.parser import MAX_VALUES
from kube_fairlead_apiserver.patch import value_limit
from kube_fairlead_apiserver.patch.value_limit import TooManyValues, ensure_few_values

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a,[{]}:"\\\\\\n', max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(',[{"', max_size=3), inner, max_size=5),
    max_leaves=30,
)


@pytest.mark.parametrize("piece", [b"[],", b"{},", b"1,", b'"",', b'{"a":1},'])
def test_a_body_of_tiny_values(piece: bytes) -> None:
    # An empty list counts where it stands and for what it could hold.
    each = 2 if piece[:1] in b"[{" else 1
    ensure_few_values(b"[" + piece * (MAX_VALUES // each - 1) + b"1]")
    with pytest.raises(TooManyValues, match=f"it has more than {MAX_VALUES} values"):
        ensure_few_values(b"[" + piece * (MAX_VALUES // each + 1) + b"1]")


@pytest.mark.parametrize("text", [b"," * 1_000_000, b"[{" * 500_000, b'\\",' * 300_000, b"\\\\" * 500_000])
def test_what_text_holds_does_not_count(text: bytes) -> None:
    ensure_few_values(b'{"a":"' + text + b'","b":[1,2]}')
    ensure_few_values(b'{"a":"' + text)


@given(_JSON)
@settings(deadline=None)
def test_values_are_counted_as_they_are(value: Any) -> None:
    body = json.dumps(value).encode()

    def count(value: Any) -> int:
        if isinstance(value, dict):
            value = list(value.values())
        return max(len(value), 1) + sum(map(count, value)) if isinstance(value, list) else 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(value_limit, "MAX_VALUES", count(value))
        ensure_few_values(body)
        if count(value):
            patch.setattr(value_limit, "MAX_VALUES", count(value) - 1)
            with pytest.raises(TooManyValues):
                ensure_few_values(body)
