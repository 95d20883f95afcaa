"""What counts as a change of a pool or a class (NP-19, EC-22)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.api.hashes import class_hash, pool_hash
from tests.shared.api.conftest import json_values, objects

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"team": "blue"}},
    "spec": {"taints": [{"key": "a"}, {"key": "b"}], "expireAfter": "720h"},
}


def test_lists_are_sets_and_empty_values_are_absent() -> None:
    """NP-19: reordering and writing out a zero is no change."""
    spec = {"taints": [{"key": "b"}, {"key": "a"}], "expireAfter": "720h", "startupTaints": []}
    same = {"metadata": {"labels": {"team": "blue"}, "annotations": {}}, "spec": spec}
    assert pool_hash(same) == pool_hash(TEMPLATE)


def test_a_changed_value_is_a_change() -> None:
    changed = {**TEMPLATE, "metadata": {"labels": {"team": "red"}}}
    assert pool_hash(changed) != pool_hash(TEMPLATE)


def volume(size: object) -> dict[str, Any]:
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": size}}]}


def kubelet(period: str, name: str = "kubelet") -> dict[str, Any]:
    return {name: {"evictionSoftGracePeriod": {"memory.available": period}}}


def test_two_spellings_of_an_amount_are_no_change() -> None:
    """EC-22, as in Karpenter."""
    assert class_hash(volume("1Ti")) == class_hash(volume("1024Gi")) == class_hash(volume(2**40))
    assert class_hash(volume("1Ti")) != class_hash(volume("1T"))
    assert class_hash(kubelet("90s")) == class_hash(kubelet("1m30s")) != class_hash(kubelet("91s"))
    old = "kubeletConfiguration"
    assert pool_hash(kubelet("60s", old)) == pool_hash(kubelet("1m", old))


@given(st.sampled_from(["blockDeviceMappings", "kubelet"]), json_values("ebs", "volumeSize"))
def test_fields_of_any_form_have_a_hash(name: str, value: Any) -> None:
    assert class_hash({name: value}).isdigit()
    assert class_hash({name: [{"ebs": value}]}).isdigit()


def test_excluded_fields_of_a_class_do_not_count() -> None:
    """EC-22: what selectors find is drift of its own, not the selector's text."""
    spec = {"role": "a", "subnetSelectorTerms": [{"id": "subnet-1"}]}
    other = {"role": "a", "subnetSelectorTerms": [{"id": "subnet-2"}]}
    excluded = ("subnetSelectorTerms",)
    assert class_hash(spec, excluded=excluded) == class_hash(other, excluded=excluded)
    assert class_hash(spec) != class_hash(other)


@given(objects("a", "b", "c"), st.integers(0, 3))
def test_a_hash_is_twenty_digits_at_most_whatever_is_written(
    value: dict[str, Any], extra: int
) -> None:
    """It goes into an annotation; null, NaN and huge numbers included."""
    digest = pool_hash({**value, "n": [None] * extra})
    assert digest.isdigit()
    assert len(digest) <= 20
    assert digest == pool_hash(dict(reversed({**value, "n": [None] * extra}.items())))


@given(st.lists(json_values("a", "b"), max_size=5))
def test_the_order_of_a_list_never_matters(values: list[Any]) -> None:
    assert pool_hash({"v": values}) == pool_hash({"v": values[::-1]})
