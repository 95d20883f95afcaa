"""What the watcher writes to pools, classes and machines, on a real API server (P-13, NP-15..20, F27)."""

from __future__ import annotations

from typing import Any

import pytest

from services.watcher.conversion import KINDS, Kind
from services.watcher.mirror.journal import Journal
from services.watcher.object_faults import ObjectFaults
from services.watcher.status.controller import Statuses
from services.watcher.status.inline_templates import InlineTemplates
from shared.api.hashes import METHOD
from shared.concurrency.clock import SystemClock
from shared.domain import labels as keys
from shared.kube.client import Kube
from shared.kube.informer import key_of
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.kube.resources import (
    AWS_NODE_TEMPLATES,
    EC2_NODE_CLASSES,
    MACHINES,
    NODE_CLAIMS,
    NODE_POOLS,
    PROVISIONERS,
    Resource,
)
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.redis.mirror import MirrorWriter
from shared.redis.mirror.pools.registrations import RegistrationOutcomes
from tests.services.conftest import create_machine, create_node_class, create_node_pool, create_pool
from tests.support.clock.fake import FakeClock
from tests.support.cluster.others import others_pool

KIND = {kind.resource.kind: kind for kind in KINDS}
WATCHED = (PROVISIONERS, NODE_POOLS, AWS_NODE_TEMPLATES, EC2_NODE_CLASSES, MACHINES, NODE_CLAIMS)
READY = {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                         "lastTransitionTime": "2026-01-01T00:00:00Z"}]}  # fmt: skip


class Watcher:
    """As the service puts it together; ``turn`` is what its informers and its timer do."""

    def __init__(self, kube: Kube, bus: Bus, recorder: Recorder, clock: FakeClock) -> None:
        self.kube = kube
        self.journal = Journal(MirrorWriter(bus.redis, bus.prefix, epoch="a"), bus, SystemClock())
        self.outcomes = RegistrationOutcomes(bus.redis, bus.prefix)
        inline = InlineTemplates(kube, recorder, clock)
        self.metrics = Metrics("watcher")
        faults, machines = ObjectFaults(self.metrics), Machines(kube)
        self.statuses = Statuses(
            kube, machines, recorder, clock, self.journal, inline, self.outcomes, faults
        )
        self.seen: dict[str, tuple[Kind, dict[str, Any]]] = {}

    async def turn(self) -> None:
        before, self.seen = self.seen, {}
        for resource in WATCHED:
            for raw in (await self.kube.list(resource)).items:
                self._event(KIND[resource.kind], raw)
        for key in before.keys() - self.seen.keys():
            kind, raw = before[key]
            self.journal.note(kind, raw, None)
            self.statuses.forget(kind, key_of(raw))
        await self.statuses.refresh()

    def _event(self, kind: Kind, raw: dict[str, Any]) -> None:
        parsed = kind.convert(raw)
        self.journal.note(kind, raw, parsed.record)
        self.statuses.note(kind, raw, parsed)
        self.seen[kind.key(raw)] = kind, raw

    async def condition(self, resource: Resource, kind: str) -> tuple[str, str, str]:
        raw = await self.kube.get(resource, "default")
        (found,) = (c for c in raw["status"]["conditions"] if c["type"] == kind)
        return found["status"], found["reason"], found["message"]


@pytest.fixture
def watcher(kube: Kube, bus: Bus, recorder: Recorder, clock: FakeClock) -> Watcher:
    return Watcher(kube, bus, recorder, clock)


async def make_ready(kube: Kube, resource: Resource) -> None:
    await kube.patch(resource, "default", {"status": READY}, subresource="status")


async def test_a_faulty_pool_says_so_until_it_is_mended(
    kube: Kube, watcher: Watcher, events: Any
) -> None:
    """F27: a condition with every fault and an event; mended, it is active again."""
    await create_pool(kube, labels={"bad key": "a"}, annotations={"odd key": "a"})
    await make_ready(kube, AWS_NODE_TEMPLATES)
    await watcher.turn()
    status, reason, message = await watcher.condition(PROVISIONERS, "Active")
    assert (status, reason) == ("False", "ValidationFailed")
    assert "spec.labels[bad key]" in message
    assert "spec.annotations[odd key]" in message
    assert watcher.journal.records["nodepools"] == {}, "nothing is planned with it"
    pool = await kube.get(PROVISIONERS, "default")
    await watcher.turn()
    assert await kube.get(PROVISIONERS, "default") == pool, "said once is enough"
    await kube.patch(PROVISIONERS, "default", {"spec": {"labels": None, "annotations": None}})
    await watcher.turn()
    assert (await watcher.condition(PROVISIONERS, "Active"))[0] == "True"
    assert set(watcher.journal.records["nodepools"]) == {"Provisioner/default"}
    assert await events() == [("ValidationFailed", "default")]


async def test_a_pool_of_eks_auto_mode_is_left_alone(
    kube: Kube, watcher: Watcher, events: Any
) -> None:
    """No condition, no annotation, no event, and nothing is planned with it."""
    theirs = await kube.create(NODE_POOLS, others_pool("general-purpose"))
    await create_node_pool(kube)
    await watcher.turn()
    assert set(watcher.journal.records["nodepools"]) == {"NodePool/default"}
    # Its own version changes nothing, and is a conflict if anybody has written to it.
    unchanged = {"metadata": {"resourceVersion": theirs["metadata"]["resourceVersion"]}}
    assert await kube.patch(NODE_POOLS, "general-purpose", unchanged) == theirs
    assert {name for _, name in await events()} == {"default"}


async def test_a_v1_pool_follows_its_class(kube: Kube, watcher: Watcher) -> None:
    """NP-15, NP-16: missing, not looked at, ready, being deleted; picked up again when it is back."""
    await create_node_pool(kube)
    steps = []

    async def ready() -> None:
        await watcher.turn()
        steps.append((await watcher.condition(NODE_POOLS, "Ready"))[:2])

    await ready()
    await create_node_class(kube, finalizers=[keys.CLASS_FINALIZER])
    await ready()
    await make_ready(kube, EC2_NODE_CLASSES)
    await ready()
    await kube.delete(EC2_NODE_CLASSES, "default")
    await ready()
    assert steps == [
        ("False", "NodeClassNotFound"),
        ("Unknown", "NodeClassReadinessUnknown"),
        ("True", "Ready"),
        ("False", "NodeClassTerminating"),
    ]


async def test_a_pool_shows_the_capacity_of_its_machines(kube: Kube, watcher: Watcher) -> None:
    """P-13, NP-24: a resource that is no longer there is zero; an unchanged sum is not written."""
    await create_pool(kube)
    await create_machine(kube, "m")
    capacity = {"status": {"capacity": {"cpu": "4", "memory": "16Gi"}}}
    await kube.patch(MACHINES, "m", capacity, subresource="status")
    await watcher.turn()
    pool = await kube.get(PROVISIONERS, "default")
    assert pool["status"]["resources"] == {"cpu": "4", "memory": "16Gi"}
    await watcher.turn()
    assert await kube.get(PROVISIONERS, "default") == pool
    await kube.patch(MACHINES, "m", {"metadata": {"finalizers": None}})
    await kube.delete(MACHINES, "m")
    await watcher.turn()
    pool = await kube.get(PROVISIONERS, "default")
    assert pool["status"]["resources"] == {"cpu": "0", "memory": "0"}


async def test_pools_and_classes_carry_their_hashes(kube: Kube, watcher: Watcher) -> None:
    """NP-19, EC-22: the template decides; limits and weight do not."""
    await create_node_class(kube)
    await create_node_pool(kube)
    await watcher.turn()

    async def hashes() -> tuple[str, str]:
        pool = (await kube.get(NODE_POOLS, "default"))["metadata"]["annotations"]
        node_class = (await kube.get(EC2_NODE_CLASSES, "default"))["metadata"]["annotations"]
        assert (pool[keys.POOL_HASH_VERSION], node_class[keys.CLASS_HASH_VERSION]) == ("v3", "v6")
        return pool[keys.POOL_HASH], node_class[keys.CLASS_HASH]

    first = await hashes()
    await kube.patch(NODE_POOLS, "default", {"spec": {"weight": 5, "limits": {"cpu": "9"}}})
    await watcher.turn()
    assert await hashes() == first
    labels = {"spec": {"template": {"metadata": {"labels": {"team": "blue"}}}}}
    await kube.patch(NODE_POOLS, "default", labels)
    await watcher.turn()
    second = await hashes()
    assert second[0] != first[0]
    assert second[1] == first[1]


async def test_a_machine_of_another_making_gets_todays_hashes(kube: Kube, watcher: Watcher) -> None:
    """NP-20: adopting a cluster is no mass drift; a hash of ours is left alone, as it tells drift."""
    await create_pool(kube)
    await create_machine(kube, "theirs")
    await create_machine(kube, "ours")
    ours = {"annotations": {keys.PROVISIONER_HASH: "1", keys.HASHED_BY: METHOD}}
    await kube.patch(MACHINES, "ours", {"metadata": ours})
    await watcher.turn()
    pool = (await kube.get(PROVISIONERS, "default"))["metadata"]["annotations"]
    theirs = (await kube.get(MACHINES, "theirs"))["metadata"]["annotations"]
    assert theirs[keys.PROVISIONER_HASH] == pool[keys.PROVISIONER_HASH]
    assert (await kube.get(MACHINES, "ours"))["metadata"]["annotations"] == ours["annotations"]


async def test_aws_settings_in_the_provisioner_become_a_node_template(
    kube: Kube, watcher: Watcher, events: Any
) -> None:
    """P-07, T-13: one more object, owned by the Provisioner; the rest of the product sees no difference.

    Between its making and the watch that shows it nobody has made a mistake: no Warning.
    """
    selector = {"karpenter.sh/discovery": "x"}
    provider = {"subnetSelector": selector, "securityGroupSelector": selector}
    body = {"metadata": {"name": "default"}, "spec": {"provider": provider}}
    await kube.create(PROVISIONERS, body)
    await watcher.turn()
    assert (await watcher.condition(PROVISIONERS, "Active"))[0] == "Unknown"
    assert await events() == [("NodeTemplateKept", "default")]
    (template,) = (await kube.list(AWS_NODE_TEMPLATES)).items
    assert template["spec"]["subnetSelector"] == selector
    await kube.patch(
        AWS_NODE_TEMPLATES, template["metadata"]["name"], {"status": READY}, subresource="status"
    )
    await watcher.turn()
    assert (await watcher.condition(PROVISIONERS, "Active"))[0] == "True"


async def test_a_pool_says_how_its_machines_registered_until_it_is_edited(
    kube: Kube, watcher: Watcher
) -> None:
    """NP-15, LCH-77: told by the launcher through Redis, so that a restart of either forgets nothing."""
    health = "NodeRegistrationHealthy"
    await create_node_class(kube)
    await create_node_pool(kube)
    await watcher.turn()
    for uid in ("a", "b", "b"):
        await watcher.outcomes.record("NodePool/default", uid, good=False)
    await watcher.turn()
    assert (await watcher.condition(NODE_POOLS, health))[0] == "False"
    labels = {"spec": {"template": {"metadata": {"labels": {"team": "blue"}}}}}
    await kube.patch(NODE_POOLS, "default", labels)
    await watcher.turn()
    assert (await watcher.condition(NODE_POOLS, health))[0] == "Unknown"
    await watcher.outcomes.record("NodePool/default", "c", good=True)
    await watcher.turn()
    assert (await watcher.condition(NODE_POOLS, health))[0] == "True"


async def test_one_pool_that_our_code_fails_on_does_not_stop_the_others(
    kube: Kube, watcher: Watcher
) -> None:
    """F27: whatever is wrong with it; the fault is counted."""
    await create_node_pool(kube)
    broken = await create_node_pool(kube, "another")
    broken["metadata"]["generation"] = "rubbish"
    kind = KIND["NodePool"]
    watcher.statuses.note(kind, broken, kind.convert(broken))
    good = await kube.get(NODE_POOLS, "default")
    watcher.statuses.note(kind, good, kind.convert(good))
    await watcher.statuses.refresh()
    assert (await watcher.condition(NODE_POOLS, "Ready"))[0] == "False"
    count = watcher.metrics.watch_failures.labels("NodePool")
    assert count._value.get() == 1
