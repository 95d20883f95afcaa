"""Selector terms as EC2 filters (T-10, EC-01..03)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.cloud.ec2.selectors import (
    DEFAULT_OWNERS,
    IMAGES,
    SECURITY_GROUPS,
    SUBNETS,
    Filters,
    Query,
    Subject,
    queries,
    split_values,
    tag_filters,
)
from shared.domain.pools.nodepools import SelectorTerm
from shared.errors import InvalidObject

VALUES = st.text(min_size=1, max_size=20).filter(lambda value: value != "*")
KEYS = st.text(min_size=1, max_size=30)


def filters(*terms: SelectorTerm, subject: Subject = SUBNETS) -> list[Filters]:
    return [query.filters for query in queries(terms, subject)]


def tagged(**tags: str) -> SelectorTerm:
    return SelectorTerm(tags=tags)


def test_all_fields_of_a_term_must_match() -> None:
    assert filters(tagged(b="2", a="1")) == [
        [{"Name": "tag:a", "Values": ["1"]}, {"Name": "tag:b", "Values": ["2"]}]
    ]


def test_terms_are_alternatives_and_so_are_calls_of_their_own() -> None:
    """EC-01: subnet selector terms."""
    assert filters(tagged(a="1"), tagged(b="2")) == [
        [{"Name": "tag:a", "Values": ["1"]}],
        [{"Name": "tag:b", "Values": ["2"]}],
    ]


def test_a_star_alone_means_the_tag_exists() -> None:
    assert filters(tagged(Name="*")) == [[{"Name": "tag-key", "Values": ["Name"]}]]


def test_terms_that_ask_for_different_keys_are_not_mixed_up() -> None:
    """Both calls hold the filter ``tag-key``, and one of them twice."""
    both, one = tagged(a="*", b="*"), tagged(c="*")
    assert len(filters(both, one)) == 2


@pytest.mark.parametrize("value", ["private-*", "a,b", ""])
def test_other_values_are_passed_to_ec2_as_they_are(value: str) -> None:
    assert filters(tagged(Name=value)) == [[{"Name": "tag:Name", "Values": [value]}]]


def test_ids_share_one_call() -> None:
    terms = [SelectorTerm(id="subnet-1"), tagged(a="1"), SelectorTerm(id="subnet-2")]
    assert filters(*terms) == [
        [{"Name": "subnet-id", "Values": ["subnet-1", "subnet-2"]}],
        [{"Name": "tag:a", "Values": ["1"]}],
    ]


def test_many_ids_keep_to_ec2s_limit() -> None:
    found = filters(*(SelectorTerm(id=f"subnet-{n}") for n in range(450)))
    assert [len(one[0]["Values"]) for one in found] == [200, 200, 50]


def test_names_select_where_the_kind_has_a_name() -> None:
    """EC-02: security group selector terms; EC-03: image selector terms."""
    named = SelectorTerm(name="web")
    assert filters(named, subject=IMAGES) == [[{"Name": "name", "Values": ["web"]}]]
    assert filters(named, subject=SECURITY_GROUPS) == [[{"Name": "group-name", "Values": ["web"]}]]
    with pytest.raises(InvalidObject, match="no name"):
        filters(named)


def test_image_owners_default_to_self_and_amazon_unless_ids_are_given() -> None:
    """LCH-08: the newest image that suits."""
    terms = (
        SelectorTerm(id="ami-1"),
        tagged(Name="x"),
        SelectorTerm(name="y", owner="1, 2"),
        SelectorTerm(owner="3"),
    )
    owners = [query.owners for query in queries(terms, IMAGES)]
    assert sorted(owners) == sorted([(), DEFAULT_OWNERS, ("1", "2"), ("3",)])


@pytest.mark.parametrize(
    ("term", "field"),
    [
        (SelectorTerm(), "subnetSelectorTerms[1]"),
        (tagged(**{"": "x"}), "subnetSelectorTerms[1].tags"),
        (SelectorTerm(owner="self"), "subnetSelectorTerms[1].owner"),
    ],
)
def test_a_term_that_would_select_too_much_is_refused(term: SelectorTerm, field: str) -> None:
    with pytest.raises(InvalidObject) as raised:
        filters(tagged(a="1"), term)
    assert raised.value.field == field


def test_the_product_of_listed_values_is_one_call_again() -> None:
    """T-10: v1alpha1 ``{a: "1,2,3", b: "x,y"}`` is six terms."""
    terms = [tagged(a=a, b=b) for a, b in itertools.product("123", "xy")]
    assert filters(*terms) == [
        [{"Name": "tag:a", "Values": ["1", "2", "3"]}, {"Name": "tag:b", "Values": ["x", "y"]}]
    ]


def selected(asked: list[Query], resource: dict[str, str]) -> bool:
    """Would EC2, without wildcards, answer a resource with these tags?"""

    def matches(one: dict[str, object]) -> bool:
        values = one["Values"]
        assert isinstance(values, list)
        if one["Name"] == "tag-key":
            return bool(set(values) & set(resource))
        return resource.get(str(one["Name"]).removeprefix("tag:")) in values

    return any(all(matches(one) for one in query.filters) for query in asked)


TAGS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2", "*"]), min_size=1)


@given(
    terms=st.lists(TAGS, max_size=6),
    resource=st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2", "3"])),
)
def test_merging_calls_changes_nothing_that_is_selected(
    terms: list[dict[str, str]], resource: dict[str, str]
) -> None:
    """EC-01: any term, all of its tags."""
    wanted = any(
        all(key in resource and value in ("*", resource[key]) for key, value in term.items())
        for term in terms
    )
    asked = queries([SelectorTerm(tags=term) for term in terms], SUBNETS)
    assert selected(asked, resource) == wanted


@given(tags=st.dictionaries(KEYS, VALUES, min_size=1, max_size=5))
def test_every_tag_becomes_one_filter(tags: dict[str, str]) -> None:
    (found,) = filters(SelectorTerm(tags=tags))
    assert found == [{"Name": f"tag:{key}", "Values": [tags[key]]} for key in sorted(tags)]


@given(st.lists(st.sampled_from("abcd"), max_size=6))
def test_splitting_keeps_each_value_once_and_in_order(values: list[str]) -> None:
    assert split_values(" , ".join(values)) == list(dict.fromkeys(values))


def test_our_own_resources_are_found_by_exact_tags_and_present_keys() -> None:
    """LCH-83: which instances are listed."""
    assert tag_filters({"a": "1", "b": "*"}, ("k",)) == [
        {"Name": "tag:a", "Values": ["1"]},
        {"Name": "tag-key", "Values": ["b"]},
        {"Name": "tag-key", "Values": ["k"]},
    ]
