"""Selector maps of v1alpha1 and the terms of v1 mean the same (T-10, MAP-04)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.conversion.selector_maps import (
    IMAGES,
    MOST_TERMS,
    SECURITY_GROUPS,
    SUBNETS,
    selector_faults,
    selector_of_terms,
    terms_of_selector,
)
from shared.domain.pools.nodepools import SelectorTerm

VALUES = st.lists(
    st.sampled_from(["a", "b*", "*", "c d", "é"]), min_size=1, max_size=3, unique=True
)
MAPS = st.dictionaries(
    st.sampled_from(["team", "Name", "aws::name", "karpenter.sh/discovery"]),
    VALUES.map(",".join),
    min_size=1,
)


@pytest.mark.parametrize(
    ("selector", "terms"),
    [
        ({}, ()),
        ({"a": "x", "b": "*"}, (SelectorTerm(tags={"a": "x", "b": "*"}),)),
        ({"a": " x , y*,,x"}, (SelectorTerm(tags={"a": "x"}), SelectorTerm(tags={"a": "y*"}))),
        ({"a": ""}, (SelectorTerm(tags={"a": ""}),)),
        ({"aws-ids": "ami-1, ami-2"}, (SelectorTerm(id="ami-1"), SelectorTerm(id="ami-2"))),
        ({"aws::ids": "ami-1"}, (SelectorTerm(id="ami-1"),)),
        (
            {"aws::name": "x,y", "aws::owners": "self,123", "t": "1"},
            (
                SelectorTerm(name="x", owner="self,123", tags={"t": "1"}),
                SelectorTerm(name="y", owner="self,123", tags={"t": "1"}),
            ),
        ),
        ({"aws::owners": "self"}, (SelectorTerm(owner="self"),)),
    ],
)
def test_a_map_becomes_terms(selector: dict[str, str], terms: tuple[SelectorTerm, ...]) -> None:
    """T-10: entries are AND-ed, values in a list are OR-ed."""
    assert terms_of_selector(selector) == terms


@given(MAPS)
def test_terms_of_a_map_become_a_map_of_the_same_terms(selector: dict[str, str]) -> None:
    terms = terms_of_selector(selector)
    back = selector_of_terms(terms, IMAGES)
    assert back is not None
    assert terms_of_selector(back) == terms
    assert selector_of_terms(tuple(reversed(terms)), IMAGES) is not None


@pytest.mark.parametrize(
    "terms",
    [
        (SelectorTerm(tags={"a": "1", "b": "1"}), SelectorTerm(tags={"a": "2", "b": "2"})),
        (SelectorTerm(tags={"a": "1"}), SelectorTerm(tags={"b": "1"})),
        (SelectorTerm(id="subnet-1"), SelectorTerm(tags={"a": "1"})),
        (SelectorTerm(tags={"a": "1,2"}),),
        (SelectorTerm(tags={"a": " 1"}),),
        (SelectorTerm(tags={"a": ""}), SelectorTerm(tags={"a": "1"})),
        (SelectorTerm(tags={"aws-ids": "1"}),),
        (SelectorTerm(tags={"aws::name": "1"}),),
        (SelectorTerm(alias="al2@latest"),),
        (SelectorTerm(ssm_parameter="/x"),),
        (SelectorTerm(tags={"a": "1"}, match_criteria="open"),),
        (SelectorTerm(name="x", owner="1"), SelectorTerm(name="y", owner="2")),
        tuple(SelectorTerm(tags={"a": str(n)}) for n in range(MOST_TERMS + 1)),
    ],
)
def test_terms_that_no_map_can_say_are_not_bent_into_one(terms: tuple[SelectorTerm, ...]) -> None:
    assert selector_of_terms(terms, IMAGES) is None


def test_terms_for_one_owner_each_become_a_list_of_owners() -> None:
    """As v1 writes what v1alpha1 says with aws::owners."""
    terms = (SelectorTerm(name="x", owner="1"), SelectorTerm(name="x", owner="2"))
    assert selector_of_terms(terms, IMAGES) == {"aws::name": "x", "aws::owners": "1,2"}


def test_names_are_for_groups_and_images_only() -> None:
    terms = (SelectorTerm(name="x"),)
    assert selector_of_terms(terms, SUBNETS) is None
    assert selector_of_terms(terms, SECURITY_GROUPS) == {"aws::name": "x"}


def test_only_so_many_combinations_are_looked_up() -> None:
    """Owners are one alternative: they go into the same request."""
    most = ",".join(map(str, range(MOST_TERMS)))
    assert not list(selector_faults({"a": most, "aws::owners": "1,2,3"}, IMAGES))
    assert [key for key, _ in selector_faults({"a": most, "b": "1,2"}, IMAGES)] == [None]
