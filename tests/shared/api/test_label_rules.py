"""Which label keys users may set (P-15, P-17, NP-17)."""

from __future__ import annotations

import cel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.label_rules import (
    cel_allowed_v1,
    cel_allowed_v1alpha5,
    cel_free_v1,
    reserved_v1,
    reserved_v1alpha5,
)
from shared.domain import labels as keys

BOTH = (reserved_v1alpha5, reserved_v1)


@pytest.mark.parametrize(
    "key",
    [
        "team", "example.com/team", "notkarpenter.sh/x", keys.ZONE, keys.ARCH, keys.OS, keys.INSTANCE_TYPE,
        keys.CAPACITY_TYPE, keys.ZONE_ID, keys.WINDOWS_BUILD, "karpenter.k8s.aws/instance-family",
        "node.kubernetes.io/role", "team.node-restriction.kubernetes.io/x", "kops.k8s.io/instancegroup",
        "karpenter.k8s.aws/capacity-reservation-id", "karpenter.k8s.aws/placement-group-partition",
    ],
)  # fmt: skip
def test_own_and_well_known_keys_are_free_in_both_generations(key: str) -> None:
    """P-17, NP-17, IT-40..IT-44: restricted keys, and the well-known ones among them."""
    assert [rule(key) for rule in BOTH] == ["", ""]


@pytest.mark.parametrize(
    "key",
    [
        keys.NODE_POOL, keys.PROVISIONER_NAME, keys.HOSTNAME, keys.INITIALIZED, keys.REGISTERED, keys.NODE_CLASS,
        "karpenter.sh/emptiness-timestamp",
    ],
)  # fmt: skip
def test_what_the_autoscaler_sets_is_kept_in_both_generations(key: str) -> None:
    """P-15: labels; P-17: restricted domains; NP-17: restricted keys; MAP-01: one generation owns a node."""
    assert all("is set by the autoscaler" in rule(key) for rule in BOTH)


@pytest.mark.parametrize(
    "key", ["karpenter.sh/x", "a.karpenter.sh/x", "karpenter.k8s.aws/x", "a.karpenter.k8s.aws/x"]
)
def test_karpenters_domains_are_restricted_in_both_generations(key: str) -> None:
    assert all("restricted domain" in rule(key) for rule in BOTH)


@pytest.mark.parametrize(
    "key", ["kubernetes.io/x", "beta.kubernetes.io/x", "k8s.io/x", "a.k8s.io/x"]
)
def test_the_domains_of_kubernetes_are_free_in_v1_only(key: str) -> None:
    """NP-17 against P-17."""
    assert reserved_v1(key) == ""
    assert "restricted domain" in reserved_v1alpha5(key)


@pytest.mark.parametrize("key", ["", "a b", "/x", "x/", "a/b/c", "UPPER.com/x", "x" * 64])
def test_a_key_must_be_a_qualified_name(key: str) -> None:
    """P-15: labels."""
    assert all("is not a qualified name" in rule(key) for rule in BOTH)


def test_the_servers_condition_names_every_free_key_of_karpenters_domains() -> None:
    """NP-17: what is free here must not be refused there."""
    condition = cel_free_v1("k")
    for key in keys.WELL_KNOWN:
        listed = f"'{key}'" in condition
        assert listed == (key.startswith("karpenter.") and reserved_v1(key) == "")


@given(st.text())
def test_any_text_is_judged_in_words_of_bounded_length(key: str) -> None:
    assert all(len(rule(key)) < 2000 for rule in BOTH)


PARTS = (
    "a",
    "beta",
    "x.node",
    "kops",
    "node",
    "node-restriction",
    "karpenter",
    "kubernetes",
    "k8s",
    "B b",
    "",
)
ENDS = ("kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws", "example.com", "")
MADE = st.tuples(
    st.sampled_from(PARTS), st.sampled_from(ENDS), st.sampled_from(("team", "arch", "os", "a b"))
)
KNOWN = (*sorted(keys.WELL_KNOWN), *keys.ALIASES, keys.HOSTNAME, keys.NODE_POOL, keys.NODE_CLASS)


@given(
    MADE.map(lambda p: ".".join(x for x in p[:2] if x) + "/" + p[2])
    | st.sampled_from(KNOWN)
    | st.text()
)
def test_cel_with_subdomains_says_the_same_as_the_functions(key: str) -> None:
    for condition, rule in (
        (cel_allowed_v1("k"), reserved_v1),
        (cel_allowed_v1alpha5("k"), reserved_v1alpha5),
    ):
        assert cel.evaluate(condition, {"k": key}) == (rule(keys.normalise(key)) == ""), (
            key,
            condition,
        )
