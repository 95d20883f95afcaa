"""Any documents give an answer that is valid JSON, and never an exception."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.simulation.objects import KINDS
from tests.shared.simulation.documents import (
    answer,
    controller,
    instance_type,
    node,
    node_pool,
    pod,
    provisioner,
    run,
)

WORDS = (
    "a",
    "default",
    "spec",
    "name",
    "us-east-1a",
    "In",
    "m5.large",
    "-1",
    "4",
    "NaN",
    "\ud800",
    "",
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=5)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3)
    ),
    max_leaves=6,
)
KNOWN = st.fixed_dictionaries(
    {
        "kind": st.sampled_from([*KINDS, "List", "PodList"]),
        "metadata": ANYTHING | st.just({"name": "a"}),
    },
    optional={"apiVersion": ANYTHING, "spec": ANYTHING, "status": ANYTHING, "items": ANYTHING},
)
SELECTOR = {"matchLabels": {"app": "web"}}
TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": SELECTOR}
CHOOSY = pod(
    "choosy",
    meta={"labels": {"app": "web"}, "ownerReferences": [{"kind": "ReplicaSet", "name": "web"}]},
    topologySpreadConstraints=[
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "labelSelector": SELECTOR}
    ],
    affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}},
    tolerations=[{"key": "a", "operator": "Exists"}],
    nodeSelector={"kubernetes.io/arch": "amd64"},
    volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
)
STORAGE = (
    {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "gp3"},
    },
    {"kind": "StorageClass", "metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com"},
    {
        "kind": "PersistentVolume",
        "metadata": {"name": "pv"},
        "spec": {"csi": {"driver": "ebs.csi.aws.com"}},
    },
)
GOOD = (
    CHOOSY, *STORAGE, pod(), pod("bound", nodeName="node-1"), node(), node_pool(), provisioner(), instance_type(),
    controller("Deployment", replicas=2), controller("StatefulSet", "db"), controller("Job", "job"),
)  # fmt: skip


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [at, *(path for key, one in inner for path in paths(one, (*at, key)))]


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another value at ``path``."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A good object with one value replaced."""
    good = draw(st.sampled_from(GOOD))
    return changed(good, draw(st.sampled_from(paths(good))), draw(ANYTHING))


def check_answer(found: dict[str, Any]) -> None:
    json.dumps(found, allow_nan=False)
    pods = [p for one in [*found["machines"], *found["existing"]] for p in one["pods"]]
    pods += [one["pod"] for one in found["unschedulable"]]
    assert len(pods) == len(set(pods)) == found["stats"]["pods"]
    assert found["cost"]["hourly"] >= 0


@given(st.lists(ANYTHING | KNOWN, max_size=4))
def test_any_documents_give_an_answer(documents: list[Any]) -> None:
    check_answer(run(*documents, instance_type("z1.large"), node_pool("z")).answer)


@given(st.lists(damaged(), min_size=1, max_size=3))
def test_damaged_objects_give_an_answer(documents: list[Any]) -> None:
    check_answer(answer(pod("good"), *documents, instance_type("z1.large")))
