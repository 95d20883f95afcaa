"""Selectors: the grammar round-trips, and malformed text is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.cluster.api.errors import ApiError
from local.cluster.storage.selectors import (
    LabelRequirement,
    object_predicate,
    parse_label_selector,
    selector_matches,
    selector_text,
)

KEYS = st.from_regex(r"\A[a-z]([a-z.-]{0,4}[a-z])?(/[a-z]{1,3})?\Z").filter(
    lambda key: key not in ("in", "notin")
)
VALUES = st.from_regex(r"\A[a-zA-Z0-9]{1,4}\Z")
LABELS = st.dictionaries(KEYS, VALUES, max_size=4)
EXPRESSIONS = st.one_of(
    st.fixed_dictionaries(
        {
            "key": KEYS,
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(VALUES, min_size=1, max_size=3),
        }
    ),
    st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
)
SELECTORS = st.fixed_dictionaries(
    {"matchLabels": LABELS, "matchExpressions": st.lists(EXPRESSIONS, max_size=3)}
)


@given(SELECTORS, LABELS)
def test_a_selector_object_and_its_text_mean_the_same(
    selector: dict[str, Any], labels: dict[str, str]
) -> None:
    terms = parse_label_selector(selector_text(selector))
    assert all(term.matches(labels) for term in terms) == selector_matches(selector, labels)


@given(KEYS, st.lists(VALUES, min_size=1, max_size=3), LABELS)
def test_in_and_notin_are_opposites(key: str, values: list[str], labels: dict[str, str]) -> None:
    wanted = LabelRequirement(key, "In", frozenset(values)).matches(labels)
    assert wanted != LabelRequirement(key, "NotIn", frozenset(values)).matches(labels)


@given(st.text("ab=!,()<> inotx", max_size=12))
def test_any_text_is_parsed_or_refused_with_400(text: str) -> None:
    with suppress(ApiError):
        assert all(term.key for term in parse_label_selector(text))


@pytest.mark.parametrize("text", ["a=b=c", "a in b", "a,,b", "=b", "a in (b", "a!b", ","])
def test_malformed_selectors_are_refused(text: str) -> None:
    with pytest.raises(ApiError):
        parse_label_selector(text)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("spec.nodeName=n1", True),
        ("spec.nodeName==n2", False),
        ("spec.nodeName!=n2,status.phase=", True),
        ("spec.unschedulable=true", True),
    ],
)
def test_field_selectors_compare_text(selector: str, expected: bool) -> None:
    document = {"metadata": {"name": "x"}, "spec": {"nodeName": "n1", "unschedulable": True}}
    matches = object_predicate(None, selector)
    assert matches is not None
    assert matches(document) is expected


def test_no_selector_object_matches_nothing_and_an_empty_one_everything() -> None:
    assert not selector_matches(None, {"a": "b"})
    assert selector_matches({}, {"a": "b"})
