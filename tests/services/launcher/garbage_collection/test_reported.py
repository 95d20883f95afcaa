"""What the sweeps say of garbage before it is gone, or when nobody may end it (LCH-80, LCH-81, LCH-83)."""

from __future__ import annotations

from typing import Any

import pytest

from cli.operations.audit.catalogue import PROMISES
from shared.cloud.ec2.ownership import CLUSTER_NAME_TAG, cluster_tag
from shared.domain import labels as keys
from shared.domain.nodes import provider_instance_id
from tests.services.conftest import CLUSTER, Control, create_node_pool
from tests.services.launcher.lifecycle_world import World

POOLED = {CLUSTER_NAME_TAG: CLUSTER, keys.NODE_POOL: "default", keys.NODE_CLASS: "default"}
Events = Any


@pytest.mark.slow
async def test_what_does_not_belong_together_is_counted_by_promise(world: World) -> None:
    """LCH-80, LCH-81, F24: as dovetail audit names it, until it is mended."""
    lost = await world.registered("default-a")
    ended = await world.launched("default-b")
    await world.registered("default-c")
    await world.forget(lost)
    await world.terminate(ended)
    await world.sweep()
    counted = {
        promise: world.metrics.unmatched.labels(promise)._value.get()
        for promise in (one.name for one in PROMISES[:5] + PROMISES[8:9])
    }
    assert counted == {
        "each instance has a machine": 1,
        "no machine has two instances": 0,
        "each launched machine has its instance": 1,
        "each node has a machine": 0,
        "each registered machine has its node": 0,
        "launch records end": 0,
    }
    await world.sweep_twice()
    await world.sweep()
    assert world.metrics.unmatched.labels("each instance has a machine")._value.get() == 0


@pytest.mark.slow
async def test_what_no_service_may_end_is_reported_and_never_ordered(
    world: World, control: Control, events: Events
) -> None:
    """LCH-83: a copy by hand without the cluster's tag. It holds up no other and makes no sweep come sooner."""
    await create_node_pool(world.kube)
    (copied,) = await world.instances(POOLED)
    lost = await world.launched("default-a")
    await world.launched("default-good")
    await world.forget(lost)
    await world.sweep_twice()
    assert copied in control.alive()
    assert provider_instance_id(lost.provider_id) not in control.alive()
    held = ("instances without a machine and without the tag of the cluster", "NodePool/default")
    assert world.metrics.deletions_held.labels(*held)._value.get() == 1
    assert ("DeletionsHeld", "default") in await events()
    assert f"{cluster_tag(CLUSTER)}=owned" in world.garbage.deletions.held[held]
    usual = world.garbage.ports.settings.garbage_period
    world.garbage._rounds = 100
    await world.sweep()
    assert world.garbage.pause_seconds() == usual
    await world.cloud.ec2.terminate([copied])
    await world.sweep()
    assert world.metrics.deletions_held.labels(*held)._value.get() == 0
