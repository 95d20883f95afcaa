"""Consolidation moves pods with device claims only where their devices are free (DRA-01, POD-09)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.disruption.methods import single_node
from shared.domain.devices.records import PodClaim
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED, Budget
from shared.domain.snapshot import Snapshot
from shared.solver.solve import SolverSettings
from tests.support.planning.builders import make_catalogue, make_pool, make_type
from tests.support.planning.devices import (
    GPU_CLASS,
    allocated,
    gpus,
    make_claim_template,
    make_device_template,
    make_resource_claim,
    make_slice,
    spec_of,
    want,
)
from tests.support.planning.disruption import make_cluster, make_running, make_world, pods_on


def made_for(node: str) -> PodClaim:
    """The claim that was made for the pod on this node."""
    return PodClaim("devices", f"{node}-pod-devices", "gpus")


def cluster(devices: int) -> Snapshot:
    """Two nodes with so many devices each; on each runs a pod with one."""
    pool = make_pool(
        generation_api=V1,
        consolidation_policy=WHEN_UNDERUTILIZED,
        consolidate_after_seconds=0.0,
        budgets=(Budget("100%"),),
    )
    running = [make_running(name, pool=pool) for name in ("n1", "n2")]
    pods = [
        pod
        for name in ("n1", "n2")
        for pod in pods_on(name, 1, claims_devices=True, device_claims=(made_for(name),))
    ]
    held = [
        make_resource_claim(
            spec_of(want()), made_for(pod.node_name).claim, reserved_for=(pod.uid,),
            **allocated(pod.node_name, "gpu-0"),
        )
        for pod in pods
    ]  # fmt: skip
    changes: dict[str, Any] = {
        "catalogue": make_catalogue((make_type("m5.x004", 4, 16),)),
        "device_classes": (GPU_CLASS,),
        "claim_templates": (make_claim_template(spec_of(want())),),
        "device_templates": (make_device_template("all", ("m5.x004",), gpus(devices)),),
        "resource_slices": tuple(make_slice(one.node.name, gpus(devices)) for one in running),
        "resource_claims": tuple(held),
    }
    return make_cluster(running, *pods, pools=(pool,), **changes)


@pytest.mark.parametrize(("devices", "commands"), [(1, 0), (2, 1)])
def test_a_node_goes_if_another_has_its_pods_devices_free(devices: int, commands: int) -> None:
    settings = SolverSettings(ignore_device_claims=False)
    found = single_node.propose(make_world(cluster(devices), solver=settings))
    assert len(found.commands) == commands
