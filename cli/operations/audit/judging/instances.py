"""Instances, machines and nodes belong together: each has one of the others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from cli.operations.audit.finding import Finding, Graces
from cli.operations.audit.picture import Reading
from shared.cloud.ec2.ownership import GONE_STATES, TOKEN_TAG, machine_of
from shared.cloud.ec2.records import Instance
from shared.domain.machines.machine import LAUNCHED, REGISTERED, Machine
from shared.domain.nodes import provider_instance_id

LOST = (
    "why it stays: dovetail logs launcher, dovetail logs terminator, metric dovetail_deletions_held"
)


def instances_have_machines(reading: Reading, graces: Graces) -> list[Finding]:
    """Live instances that no machine names and no open launch will adopt."""
    return [
        Finding(
            one.id,
            _orphaned(one),
            f"aws ec2 terminate-instances --instance-ids {one.id}; {LOST}",
            since=one.launched_at,
            twice=True,
        )
        for one in _orphans(reading, graces)
        if not _is_second(one, reading)
    ]


def one_instance_each(reading: Reading, graces: Graces) -> list[Finding]:
    """Machines with two live instances, by the tags of a second one, and instances that two machines name."""
    found = [
        Finding(
            machine_of(one),
            f"{one.id} runs for it as well, which it does not name",
            f"aws ec2 terminate-instances --instance-ids {one.id}; {LOST}",
            since=one.launched_at,
            twice=True,
            version=one.id,
        )
        for one in _orphans(reading, graces)
        if _is_second(one, reading)
    ]
    named = Counter(_instance(machine) for machine in reading.machines if _instance(machine))
    return found + [
        Finding(
            name,
            f"{count} machines name it",
            f"kubectl get machines,nodeclaims -o wide | grep {name}",
            twice=True,
        )
        for name, count in named.items()
        if count > 1
    ]


def machines_have_instances(reading: Reading, graces: Graces) -> list[Finding]:
    """Launched machines that stay although their instance is gone. A node that is Ready proves its instance."""
    listed = {one.id: one for one in reading.instances}
    ready = {node.provider_id for node in reading.nodes if node.ready}
    found = []
    for machine in reading.machines:
        instance = listed.get(_instance(machine))
        if not _instance(machine) or machine.terminating or (instance and _is_live(instance)):
            continue
        ended = instance.stopped_at if instance is not None else 0.0
        if (not ended and machine.provider_id in ready) or (
            reading.at - (ended or _condition_at(machine, LAUNCHED)) < graces.lost
        ):
            continue
        state = f"is {instance.state}" if instance is not None else "is not listed by EC2"
        found.append(
            Finding(
                machine.key,
                f"its instance {_instance(machine)} {state}",
                f"{LOST}; kubectl delete {machine.key.lower()}",
                since=ended or None,
                twice=not ended,
            )
        )
    return found


def nodes_have_machines(reading: Reading, graces: Graces) -> list[Finding]:
    """Managed nodes without a machine."""
    owned = {machine.provider_id for machine in reading.machines} | _unreadable_ids(reading)
    return [
        Finding(
            f"Node/{node.name}",
            f"no machine names {node.provider_id}",
            f"kubectl delete node {node.name}; {LOST}",
            since=node.created_at,
            twice=True,
        )
        for node in reading.nodes
        if node.is_managed
        and provider_instance_id(node.provider_id)
        and not node.terminating
        and node.provider_id not in owned
        and reading.at - node.created_at > graces.node
    ]


def machines_have_nodes(reading: Reading, graces: Graces) -> list[Finding]:
    """Registered machines without a node."""
    there = {node.provider_id for node in reading.nodes} | _unreadable_ids(reading)
    return [
        Finding(
            machine.key,
            f"it is registered, and there is no node {machine.node_name}",
            f"kubectl delete {machine.key.lower()}; {LOST}",
            twice=True,
        )
        for machine in reading.machines
        if machine.has(REGISTERED)
        and not machine.terminating
        and machine.provider_id not in there
        and reading.at - _condition_at(machine, REGISTERED) > graces.node
    ]


def _orphans(reading: Reading, graces: Graces) -> list[Instance]:
    owned = {_instance(machine) for machine in reading.machines}
    owned |= {provider_instance_id(one) for one in _unreadable_ids(reading)}
    # A machine that cannot be read and names no instance may own the one with its tag.
    unknown = {one.key for one in reading.unreadable if not one.provider_id}
    tokens = {record.token for record in reading.records}
    return [
        one
        for one in reading.instances
        if _is_live(one)
        and one.id not in owned
        and one.tags.get(TOKEN_TAG) not in tokens
        and machine_of(one) not in unknown
        and reading.at - one.launched_at > graces.instance
    ]


def _is_second(orphan: Instance, reading: Reading) -> bool:
    """Whether the machine in its tags exists and names another live instance."""
    live = {one.id for one in reading.instances if _is_live(one)}
    named = _by_key(reading.machines).get(machine_of(orphan), ())
    return any(_instance(machine) in live for machine in named)


def _by_key(machines: Iterable[Machine]) -> dict[str, list[Machine]]:
    found: dict[str, list[Machine]] = defaultdict(list)
    for machine in machines:
        found[machine.key].append(machine)
    return found


def _orphaned(instance: Instance) -> str:
    named = machine_of(instance)
    return f"no machine names it; its tags say {named}" if named else "no machine names it"


def _is_live(instance: Instance) -> bool:
    return instance.state not in GONE_STATES


def _instance(machine: Machine) -> str:
    return provider_instance_id(machine.provider_id)


def _unreadable_ids(reading: Reading) -> set[str]:
    return {one.provider_id for one in reading.unreadable if one.provider_id}


def _condition_at(machine: Machine, name: str) -> float:
    """When the condition changed last, not before the machine was made."""
    found = machine.conditions.get(name)
    return max(found.since if found is not None else 0.0, machine.created_at)
