"""The prefix index says the same as moto's scan of all keys, for the prefixes that its parser asks
about.

moto is imported by the test alone: it takes two seconds, and every process of a test run reads this file.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.aws.moto.resources import import_moto

parts = st.lists(st.sampled_from(["A", "B", "1", "2", "Name"]), min_size=1, max_size=4)
keys = st.lists(parts.map(".".join), max_size=10)


@pytest.fixture(scope="module")
def dotted_prefixes() -> Any:
    import_moto("us-west-2")
    from local.aws.moto.speed import dotted_prefixes

    return dotted_prefixes


@given(keys=keys, prefix=parts.map(".".join))
def test_a_prefix_is_known_when_a_key_is_it_or_goes_on_with_a_dot(
    dotted_prefixes: Any, keys: Any, prefix: Any
) -> None:
    expected = any(key == prefix or key.startswith(f"{prefix}.") for key in keys)
    assert (prefix in dotted_prefixes(dict.fromkeys(keys, ""))) == expected
