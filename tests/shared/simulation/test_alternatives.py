"""Why a machine is of its type: the offerings beside it, with prices and reasons."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.types import SizeFacts
from shared.domain.pools.generations import V1
from shared.simulation.alternatives import (
    CHEAPER,
    DEARER,
    NO_CAPACITY,
    NO_LONGER,
    TAKEN,
    alternatives_of,
)
from tests.support.planning.builders import (
    ZONES,
    amounts,
    make_catalogue,
    make_node_class,
    make_pool,
    make_type,
)
from tests.support.planning.disruption import make_cluster, make_running

TYPES = (
    make_type("m5.x002", 2, 8, 96_000, zones=ZONES[:1]),
    make_type("m5.x004", 4, 16, 192_000, zones=ZONES[:1]),
    make_type("m5.x008", 8, 32, 384_000, zones=ZONES[:1]),
    make_type("a1.x004", 4, 16, 150_000, zones=ZONES[:1], labels={keys.ARCH: ("arm64",)}),
)


def found(cpu: str, **changes: Any) -> dict[str, Any]:
    """Of a machine of 4 cores that was bought for pods that ask for so much."""
    pool = changes.pop("pool", make_pool(generation_api=V1))
    running = make_running("n1", "m5.x004", pool=pool, requests=amounts(cpu=cpu, memory="1Gi"))
    changes.setdefault("catalogue", make_catalogue(TYPES))
    snapshot = make_cluster([running], pools=(pool,), **changes)
    return alternatives_of(running.machine, snapshot)


def reasons(answer: dict[str, Any]) -> dict[str, str]:
    return {one["instanceType"]: one["why"] for one in answer["others"]}


def test_the_taken_one_has_its_price_and_each_other_one_a_reason() -> None:
    answer = found("3")
    assert answer["taken"]["pricePerHour"] == pytest.approx(0.192)
    assert answer["taken"]["why"] == TAKEN
    assert reasons(answer) == {
        "m5.x002": "too small: cpu 2 of 3",
        "a1.x004": "not allowed: kubernetes.io/arch In [amd64]",
        "m5.x008": DEARER,
    }
    assert (answer["suiting"], answer["cheaper"]) == (2, 0)


def test_a_cheaper_one_that_would_do_is_named_as_such() -> None:
    answer = found("1")
    assert answer["others"][0]["instanceType"] == "m5.x002"
    assert answer["others"][0]["why"] == CHEAPER
    assert answer["cheaper"] == 1


def test_what_ec2_refused_lately_does_not_suit() -> None:
    sold_out = frozenset({(keys.ON_DEMAND, "m5.x002", ZONES[0])})
    answer = found("1", unavailable=sold_out)
    assert reasons(answer)["m5.x002"] == NO_CAPACITY
    assert answer["cheaper"] == 0


def test_the_pool_as_it_is_now_decides() -> None:
    family = Expression(keys.AWS_PREFIX + "instance-cpu", "In", ("4", "8"))
    pool = make_pool(generation_api=V1)
    pool = replace(pool, requirements=(*pool.requirements, family))
    assert reasons(found("1", pool=pool))["m5.x002"].startswith(
        "not allowed: karpenter.k8s.aws/instance-cpu"
    )


def test_types_have_the_room_that_the_class_leaves() -> None:
    """A class that reserves a core makes types too small, the taken one included."""
    kinds = tuple(replace(kind, facts=SizeFacts(3, 3, 10)) for kind in TYPES)
    kubelet = {"systemReserved": {"cpu": "1500m"}}
    node_class = make_node_class(generation_api=V1, kubelet=kubelet)
    running = make_running(
        "n1", "m5.x004", pool=make_pool(generation_api=V1), requests=amounts(cpu="3")
    )
    snapshot = make_cluster(
        [running], pools=(make_pool(generation_api=V1),), catalogue=make_catalogue(kinds)
    )
    answer = alternatives_of(running.machine, replace(snapshot, node_classes=(node_class,)))
    assert answer["suiting"] == 1
    assert answer["taken"]["why"] == f"{NO_LONGER}: too small: cpu 2420m of 3"
    assert answer["taken"]["suits"] is False
    assert reasons(answer)["m5.x008"] == DEARER


def test_the_rule_that_excludes_an_offering_is_named() -> None:
    both = make_type(
        "m5.x004", 4, 16, 192_000, zones=ZONES[:1], capacity_types=(keys.SPOT, keys.ON_DEMAND)
    )
    answer = found("3", catalogue=make_catalogue((both,)))
    assert reasons(answer) == {"m5.x004": "not allowed: karpenter.sh/capacity-type In [on-demand]"}


def test_a_type_that_the_catalogue_lost_has_no_price() -> None:
    running = make_running("n1", "m5.x016", pool=make_pool(generation_api=V1))
    snapshot = make_cluster([running], catalogue=make_catalogue(TYPES))
    assert alternatives_of(running.machine, snapshot)["taken"] is None
