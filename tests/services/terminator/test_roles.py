"""The role that is shipped allows every call that the terminator makes, and no other (docs/operating/security.md)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.terminator.repair.controller import NodeRepair
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.kube.machines import Machines
from shared.kube.resources import MACHINES
from shared.kube.transport.statuses import Call
from tests.services.conftest import Control, create_machine
from tests.services.terminator.repair.test_controller import HALF_AN_HOUR, fall_ill
from tests.services.terminator.test_termination_deadlines import TOLERATES_ALL, attach, detach
from tests.services.terminator.world import World

MANIFEST = Path(__file__).parents[3] / "deploy" / "kubernetes" / "terminator.yaml"
Allowed = set[tuple[str, str, str]]


def role() -> Allowed:
    """(verb, group, resource) of the ClusterRole."""
    documents = yaml.safe_load_all(MANIFEST.read_text())
    (found,) = [document for document in documents if document["kind"] == "ClusterRole"]
    return {
        (verb, group, resource)
        for rule in found["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.fixture
def calls(world: World, monkeypatch: pytest.MonkeyPatch) -> Allowed:
    """Every call to the API server from now on."""
    made: Allowed = set()
    unary = world.kube._connection.unary

    async def noted(call: Call, *args: Any, **kwargs: Any) -> Any:
        made.add((call.verb, call.resource.group, call.rule))
        return await unary(call, *args, **kwargs)

    monkeypatch.setattr(world.kube._connection, "unary", noted)
    return made


@pytest.mark.slow
async def test_the_role_is_what_a_terminator_needs(
    world: World, control: Control, events: Any, calls: Allowed
) -> None:
    """TRM-03..TRM-22: ends by machine, by node, by a deadline and by repair, with volumes, in both generations."""
    places = await world.places([V1, V1, V1, V1ALPHA5, V1ALPHA5], terminationGracePeriod="20m")
    volume = [{"name": "logs", "persistentVolumeClaim": {"claimName": "logs"}}]
    for place in places:
        world.pod("web", place.node)
        world.pod("agent", place.node, owned=False, tolerations=TOLERATES_ALL, volumes=volume)
    attached = attach(world, places[0].node, "pv-1")
    await world.budget("web", "web", minAvailable=0)
    calls.clear()
    world.delete(places[0])
    world.delete_node(places[1].node)
    world.delete_node(places[3].node)
    world.store.delete("machines", places[4].machine, group="karpenter.sh")
    for _ in range(3):
        await world.turn(10)
    detach(world, attached)
    fall_ill(world, places[2])
    world.clock.advance(HALF_AN_HOUR)
    gate = world.settings_with(feature_gates="NodeRepair=true")
    ports = replace(world.queue.ports, settings=gate)
    repair = NodeRepair(ports, Machines(world.kube), world.queue.add)
    await repair.check()
    await world.until_gone(*places)
    unlaunched = (await create_machine(world.kube))["metadata"]["name"]
    await world.kube.delete(MACHINES, unlaunched)
    await world.step()
    await events()
    made = calls - {("create", "karpenter.sh", "machines"), ("list", "", "events")}
    assert made <= role()
    assert role() - made == {("patch", "", "events")}
    assert control.alive() == []
