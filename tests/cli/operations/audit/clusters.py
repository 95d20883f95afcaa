"""Clusters for the judging: any mix of healthy machines in any stage, and one sound machine that a test spoils."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from cli.operations.audit.picture import Leaving, Mirror, Queue, Reading, Record
from shared.cloud.ec2.ownership import TOKEN_TAG
from shared.cloud.ec2.records import Instance
from shared.domain import labels as keys
from shared.domain.machines.commands import CommandRecord, written
from shared.domain.machines.machine import (
    DRAINED,
    INITIALIZED,
    INSTANCE_TERMINATING,
    LAUNCHED,
    REGISTERED,
    Condition,
    Machine,
)
from shared.domain.nodes import CORDONED, DISRUPTED, Node
from shared.domain.pools.generations import GENERATIONS, V1, V1ALPHA5
from shared.domain.workloads.pods import Pod
from shared.redis.streams import GROUPS
from tests.support.planning.builders import make_bound_pod, make_machine, make_node, make_pool

NOW = 1_790_000_000.0
HOUR = 3600.0
SIZE = {"cpu": 2000, "memory": 8 * 1024**3, "pods": 29}
SOUND = "sound"
"""Name of a machine that is ready for pods since hours, on node ``node-sound`` and instance ``i-sound``."""


@dataclass
class Parts:
    """What a cluster is put together from."""

    machines: list[Machine] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    leaving: list[Leaving] = field(default_factory=list)

    def reading(self) -> Reading:
        """With pools that have room for exactly these machines."""
        most = {"nodes": len(self.machines), "cpu": 2000 * len(self.machines)}
        pools = tuple(make_pool(generation_api=api, limits=most) for api in (V1, V1ALPHA5))
        queues = tuple(Queue(stream, 3, 1, 0, {"scheduler": NOW - 20}) for stream in GROUPS)
        return Reading(
            NOW, tuple(self.machines), tuple(self.records), tuple(self.nodes), pools,
            pods=tuple(self.pods), instances=tuple(self.instances), queues=queues,
            mirror=Mirror(complete=True, age_seconds=2.0, length=100), leaving=tuple(self.leaving),
        )  # fmt: skip


def instance_of(name: str, age: float, **changes: Any) -> Instance:
    """A running instance of the cluster, started ``age`` seconds ago."""
    fields: dict[str, Any] = {
        "id": f"i-{name}", "instance_type": "m5.large", "zone": "us-west-2a", "capacity_type": "spot",
        "image_id": "ami-1", "state": "running", "launched_at": NOW - age, "private_dns_name": "",
        "tags": {TOKEN_TAG: f"token-{name}"}, "subnet_id": "subnet-1", "security_group_ids": (),
    }  # fmt: skip
    return Instance(**{**fields, **changes})


def machine_of(
    name: str, api: str, age: float, conditions: Sequence[str], **changes: Any
) -> Machine:
    """A machine of pool ``default`` with these conditions, true since it was made."""
    fields: dict[str, Any] = {
        "generation_api": api, "created_at": NOW - age,
        "conditions": {one: Condition("True", one, since=NOW - age) for one in conditions},
    }  # fmt: skip
    if LAUNCHED in conditions:
        fields |= {"provider_id": f"aws:///us-west-2a/i-{name}", "capacity": SIZE}
    if REGISTERED in conditions:
        fields |= {"node_name": f"node-{name}"}
    return make_machine(name, **{**fields, **changes})


def node_of(name: str, api: str, age: float, **changes: Any) -> Node:
    """Its node."""
    label = GENERATIONS[api].pool_label
    fields: dict[str, Any] = {
        "provider_id": f"aws:///us-west-2a/i-{name}", "created_at": NOW - age,
        "labels": {label: "default"}, "finalizers": (keys.FINALIZER,),
    }  # fmt: skip
    return make_node(f"node-{name}", **{**fields, **changes})


READY = (LAUNCHED, REGISTERED, INITIALIZED)


def asked(parts: Parts, name: str, api: str) -> None:
    """It was just planned."""
    parts.machines.append(machine_of(name, api, 200, ()))


def launching(parts: Parts, name: str, api: str) -> None:
    """Its instance runs, and nobody has read EC2's answer yet."""
    machine = machine_of(name, api, 250, ())
    parts.machines.append(machine)
    parts.records.append(Record(f"token-{name}", NOW - 240, frozenset({machine.uid})))
    parts.instances.append(instance_of(name, 230))


def just_launched(parts: Parts, name: str, api: str) -> None:
    """Its record is not deleted yet, and its node has not joined."""
    machine = machine_of(name, api, 300, (LAUNCHED,))
    parts.machines.append(machine)
    parts.records.append(Record(f"token-{name}", NOW - 290, frozenset({machine.uid})))
    parts.instances.append(instance_of(name, 280))


def joining(parts: Parts, name: str, api: str) -> None:
    """Its node has joined and waits for a startup taint to go."""
    parts.machines.append(machine_of(name, api, 600, (LAUNCHED, REGISTERED)))
    parts.nodes.append(node_of(name, api, 500, ready=False))
    parts.instances.append(instance_of(name, 600))


def ready(parts: Parts, name: str, api: str, **changes: Any) -> None:
    """It runs since hours."""
    parts.machines.append(machine_of(name, api, 5 * HOUR, READY, **changes))
    parts.nodes.append(node_of(name, api, 5 * HOUR))
    parts.instances.append(instance_of(name, 5 * HOUR))


def commanded(parts: Parts, name: str, api: str) -> None:
    """A command holds it, and waits for its replacement."""
    key = machine_of(name, api, 0, ()).key
    record = CommandRecord("1", "drift", "Drifted", (key,), begun_at=NOW - 300)
    ready(parts, name, api, annotations={keys.COMMAND_ANNOTATION: written(record)})
    parts.nodes[-1] = structs.replace(parts.nodes[-1], taints=(DISRUPTED,))


def draining(parts: Parts, name: str, api: str, since: float = 300.0, **changes: Any) -> None:
    """It is being deleted, and a pod is left."""
    ready(parts, name, api, terminating=True, deleted_at=NOW - since, **changes)
    taints = (DISRUPTED, CORDONED)
    parts.nodes[-1] = structs.replace(parts.nodes[-1], terminating=True, taints=taints)
    parts.leaving.append(Leaving(f"Node/node-{name}", NOW - since, (keys.FINALIZER,)))
    parts.pods.append(make_bound_pod(f"pod-{name}", f"node-{name}"))


def ending_late(parts: Parts, name: str, api: str) -> None:
    """Its last pod had hours to end, and its instance ends now."""
    steps = {
        one: Condition("True", one, since=NOW - 500) for one in (DRAINED, INSTANCE_TERMINATING)
    }
    draining(parts, name, api, 3 * HOUR)
    parts.pods.pop()
    machine = parts.machines[-1]
    parts.machines[-1] = structs.replace(machine, conditions={**machine.conditions, **steps})
    parts.instances[-1] = structs.replace(parts.instances[-1], state="shutting-down")


def long_pods(parts: Parts, name: str, api: str) -> None:
    """Its pod has hours to end."""
    draining(parts, name, api, 2 * HOUR)
    pod = parts.pods[-1]
    until = NOW + HOUR
    parts.pods[-1] = structs.replace(pod, terminating=True, terminate_at=until, grace_seconds=10800)


def held(parts: Parts, name: str, api: str) -> None:
    """A person's wish holds a pod on it since hours."""
    draining(parts, name, api, 5 * HOUR)
    parts.pods[-1] = structs.replace(parts.pods[-1], do_not_disrupt="true")


def up_to_its_deadline(parts: Parts, name: str, api: str) -> None:
    """terminationGracePeriod is longer than the drain has taken."""
    draining(parts, name, api, HOUR, termination_grace_seconds=2 * HOUR)


def ended_by_hand(parts: Parts, name: str, api: str) -> None:
    """Somebody ended its instance some minutes ago."""
    ready(parts, name, api)
    ended = {"state": "terminated", "stopped_at": NOW - 240}
    parts.instances[-1] = structs.replace(parts.instances[-1], **ended)
    parts.nodes[-1] = structs.replace(parts.nodes[-1], ready=False)


def not_listed(parts: Parts, name: str, api: str) -> None:
    """EC2 leaves it out of a list, and its node runs."""
    ready(parts, name, api)
    parts.instances.pop()


def cordoned(parts: Parts, name: str, api: str) -> None:
    """A person works on it."""
    ready(parts, name, api)
    parts.nodes[-1] = structs.replace(parts.nodes[-1], unschedulable=True, taints=(CORDONED,))


def others_node(parts: Parts, name: str, api: str) -> None:
    """A node of a managed node group."""
    del api
    parts.nodes.append(make_node(f"node-{name}", provider_id=f"aws:///us-west-2a/i-{name}"))


STAGES: tuple[Callable[[Parts, str, str], None], ...] = (
    asked, launching, just_launched, joining, ready, commanded, draining, ending_late, long_pods, held,
    up_to_its_deadline, ended_by_hand, not_listed, cordoned, others_node,
)  # fmt: skip


@st.composite
def healthy_parts(draw: st.DrawFn) -> Parts:
    """Up to eight machines in any stage, and the sound one."""
    parts = Parts()
    ready(parts, SOUND, V1)
    chosen = st.tuples(st.sampled_from(STAGES), st.sampled_from((V1, V1ALPHA5)))
    for number, (stage, api) in enumerate(draw(st.lists(chosen, max_size=8))):
        stage(parts, f"m{number}", api)
    return parts


def changed(parts: Parts, **changes: Any) -> Parts:
    """Another cluster with the sound machine changed."""
    machines = [structs.replace(parts.machines[0], **changes), *parts.machines[1:]]
    return replace(parts, machines=machines)
