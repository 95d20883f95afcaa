"""Selectors as EC2 filters (T-10)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.cloud.selectors import DEFAULT_OWNERS, query, split_values, tag_filters
from shared.errors import InvalidObject

VALUES = st.text(
    st.characters(codec="utf-8", exclude_characters=",", exclude_categories=["Z", "C"]), min_size=1
)
KEYS = st.text(min_size=1, max_size=30).filter(lambda key: not key.startswith(("aws::", "aws-ids")))


def filters(selector: dict[str, str]) -> list[dict[str, object]]:
    return query(selector, id_filter="subnet-id").filters


def test_all_entries_must_match() -> None:
    assert filters({"b": "2", "a": "1"}) == [
        {"Name": "tag:a", "Values": ["1"]},
        {"Name": "tag:b", "Values": ["2"]},
    ]


def test_a_star_alone_means_the_tag_exists() -> None:
    assert filters({"Name": "*"}) == [{"Name": "tag-key", "Values": ["Name"]}]


def test_wildcards_inside_a_value_are_left_to_ec2() -> None:
    assert filters({"Name": "private-*"}) == [{"Name": "tag:Name", "Values": ["private-*"]}]


def test_commas_separate_alternatives() -> None:
    assert filters({"Name": "a, b,a"}) == [{"Name": "tag:Name", "Values": ["a", "b"]}]


@pytest.mark.parametrize("key", ["aws-ids", "aws::ids"])
def test_ids_select_by_id_and_stand_alone(key: str) -> None:
    assert filters({key: "subnet-1,subnet-2"}) == [
        {"Name": "subnet-id", "Values": ["subnet-1", "subnet-2"]}
    ]
    with pytest.raises(InvalidObject, match="only key"):
        filters({key: "subnet-1", "Name": "x"})


def test_names_select_where_the_kind_has_a_name() -> None:
    found = query({"aws::name": "a,b"}, id_filter="image-id", name_filter="name", owned=True)
    assert found.filters == [{"Name": "name", "Values": ["a", "b"]}]
    with pytest.raises(InvalidObject, match="no name"):
        filters({"aws::name": "a"})


def test_image_owners_default_to_self_and_amazon_unless_ids_are_given() -> None:
    """LCH-08."""
    by_tag = query({"Name": "x"}, id_filter="image-id", owned=True)
    by_id = query({"aws-ids": "ami-1"}, id_filter="image-id", owned=True)
    by_owner = query({"Name": "x", "aws::owners": "1,2"}, id_filter="image-id", owned=True)
    assert (by_tag.owners, by_id.owners, by_owner.owners) == (DEFAULT_OWNERS, (), ("1", "2"))


@pytest.mark.parametrize(
    ("selector", "field"),
    [
        ({}, "selector"),
        ({"": "x"}, "selector."),
        ({"aws::ids": " , "}, "selector.aws::ids"),
        ({"Name": ","}, "selector.Name"),
        ({"aws::owners": "self"}, "selector.aws::owners"),
        ({"Name": ",".join(map(str, range(201)))}, "selector.Name"),
    ],
)
def test_a_selector_that_would_select_too_much_or_nothing_is_refused(
    selector: dict[str, str], field: str
) -> None:
    with pytest.raises(InvalidObject) as raised:
        filters(selector)
    assert raised.value.field == field


@given(selector=st.dictionaries(KEYS, VALUES, min_size=1, max_size=5))
def test_every_entry_becomes_one_filter_on_its_own_tag(selector: dict[str, str]) -> None:
    found = filters(selector)
    assert len(found) == len(selector)
    for key, value in selector.items():
        exact = {"Name": f"tag:{key}", "Values": [value]}
        assert ({"Name": "tag-key", "Values": [key]} if value == "*" else exact) in found


@given(st.lists(VALUES, max_size=6))
def test_splitting_keeps_each_value_once_and_in_order(values: list[str]) -> None:
    assert split_values(" , ".join(values)) == list(dict.fromkeys(values))


def test_our_own_resources_are_found_by_exact_tags_and_present_keys() -> None:
    """LCH-83."""
    assert tag_filters({"a": "1"}, ("k",)) == [
        {"Name": "tag:a", "Values": ["1"]},
        {"Name": "tag-key", "Values": ["k"]},
    ]
