"""JSON that is used before it is stored is the same as when it is read back: its order, and its numbers."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from tenure.model.as_stored import as_stored
from tenure.model.payload import encode
from world import World

from .test_sent_texts import on_a_server, texts

NUMBERS = st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: Any = st.recursive(
    st.none() | st.booleans() | NUMBERS | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)


@on_a_server
@given(value=VALUES)
@example({"peach": 1, "fig": {"é": 1, "zz": 2, "b": 3}})
@example([1e16, 2.5e300, -0.0, 5e-324, -1.5e-7, 1e22, 10**30])
def test_json_is_the_same_before_it_is_stored_and_after(world: World, value: Any) -> None:
    here = as_stored(encode(value))
    ((there,),) = world.sql("SELECT %s::jsonb::text", encode(value))
    assert json.dumps(json.loads(here)) == json.dumps(json.loads(there))
    assert repr(msgspec.json.decode(here)) == repr(msgspec.json.decode(there))
