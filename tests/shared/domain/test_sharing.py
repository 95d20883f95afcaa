"""Pods that are alike in a part have one object for it, and are equal to what they were."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.expressions import Toleration
from shared.domain.records import PODS, decode_record
from shared.domain.workloads.pods import Owner, Pod, SpreadConstraint
from shared.domain.workloads.sharing import MOST, shared
from tests.support.planning.builders import make_pod

WORDS = st.text("abc", min_size=1, max_size=3)
PODS_OF_ALL_KINDS = st.builds(
    make_pod,
    labels=st.dictionaries(WORDS, WORDS),
    requests=st.dictionaries(st.sampled_from(("cpu", "memory", "pods")), st.integers(0, 9)),
    node_selector=st.dictionaries(WORDS, WORDS),
    tolerations=st.lists(st.builds(Toleration, key=WORDS), max_size=2).map(tuple),
    spread=st.lists(st.builds(SpreadConstraint, st.integers(1, 3), WORDS), max_size=2).map(tuple),
    owner=st.none() | st.builds(Owner, kind=WORDS, name=WORDS, uid=WORDS),
    phase=st.sampled_from(("Pending", "Running")),
)


def decoded(pod: Pod) -> Pod:
    found: Pod = decode_record(PODS, msgspec.json.encode(pod))
    return found


def test_pods_of_a_deployment_differ_in_their_names_only() -> None:
    first, second = (decoded(make_pod(name, labels={"app": "web"})) for name in ("a", "b"))
    assert first.labels is second.labels
    assert first.requests is second.requests
    assert first.namespace is second.namespace
    assert (first.name, second.name) == ("a", "b")


@given(PODS_OF_ALL_KINDS)
def test_sharing_changes_no_pod(pod: Pod) -> None:
    """Nor the order of its labels: records are compared as bytes."""
    encoded = msgspec.json.encode(pod)
    assert msgspec.json.encode(decode_record(PODS, encoded)) == encoded
    assert decode_record(PODS, encoded) == pod


def test_labels_of_each_pod_do_not_fill_the_memory() -> None:
    """So many different ones that it begins anew; all pods keep theirs."""
    found = [shared(make_pod(labels={"pod": str(n)})) for n in range(MOST + 2)]
    assert [pod.labels["pod"] for pod in found] == [str(n) for n in range(MOST + 2)]
