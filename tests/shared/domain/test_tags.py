"""Tags of an operator for everything that is made in AWS (OPS-04, T-11, EC-09)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.tags import MOST_TAGS, parse_tags


def test_tags_are_a_json_object_of_texts() -> None:
    assert parse_tags('{"team": "web", "cost/center": ""}') == {"team": "web", "cost/center": ""}
    assert parse_tags(" ") == {}


@pytest.mark.parametrize("text", ["team=web", "[1]", "null", "[" * 100_000, "1" * 5000])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r'must be a JSON object of strings such as \{"team"'):
        parse_tags(text)


@pytest.mark.parametrize(
    "key",
    [
        "karpenter.sh/provisioner-name",
        "karpenter.sh/nodepool",
        "kubernetes.io/cluster/prod",
        "karpenter.sh/managed-by",
        "aws:autoscaling",
    ],
)
def test_tags_that_say_whose_a_machine_is_cannot_be_set(key: str) -> None:
    with pytest.raises(ValueError, match=r"set by the autoscaler or AWS"):
        parse_tags(json.dumps({key: "mine"}))


def test_all_wrong_tags_are_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"needs a key; .*'n' must be a string.*; .*'v' has more"):
        parse_tags(json.dumps({"": "x", "n": 1, "v": "x" * 300}))


def test_more_tags_than_aws_takes_are_refused() -> None:
    with pytest.raises(ValueError, match=f"more than {MOST_TAGS} tags"):
        parse_tags(json.dumps({f"t{number}": "" for number in range(MOST_TAGS + 1)}))


@given(st.dictionaries(st.text(max_size=140), st.text(max_size=300) | st.none(), max_size=5))
def test_what_is_accepted_is_what_was_written(tags: dict[str, str | None]) -> None:
    try:
        assert parse_tags(json.dumps(tags)) == tags
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, but never a silent one
