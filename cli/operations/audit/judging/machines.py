"""Machines go on: they become ready, their launch records end, and nodes that stay are open for pods."""

from __future__ import annotations

from cli.operations.audit.finding import Finding, Graces
from cli.operations.audit.picture import Reading
from shared.domain import labels as keys
from shared.domain.machines.commands import holder
from shared.domain.machines.machine import INITIALIZED, LAUNCHED, REGISTERED, Machine
from shared.domain.nodes import CORDONED, DISRUPTED, Node

NOTICED = frozenset(
    {
        keys.SPOT_ITN_TAINT_KEY,
        keys.REBALANCE_TAINT_KEY,
        keys.MAINTENANCE_TAINT_KEY,
        keys.IMPAIRED_TAINT_KEY,
    }
)
"""Taints that say why the interruption service cordoned a node."""


def machines_become_ready(reading: Reading, graces: Graces) -> list[Finding]:
    """Machines that are late, by the conditions that say what they wait for."""
    found = []
    for machine in reading.machines:
        if machine.terminating or machine.has(INITIALIZED):
            continue
        stage, since, grace = _stage(machine, graces)
        if reading.at - since > grace:
            found.append(
                Finding(
                    machine.key,
                    f"it is not {stage}{_reason(machine)}",
                    f"kubectl describe {machine.key.lower()}; dovetail logs launcher",
                    since=since,
                )
            )
    return found


def _stage(machine: Machine, graces: Graces) -> tuple[str, float, float]:
    """(what it is not yet, since when it waits for that, the grace)."""
    if not machine.has(LAUNCHED):
        return "launched", _at(machine, LAUNCHED), graces.launch
    if not machine.has(REGISTERED):
        since = max(_at(machine, LAUNCHED), _at(machine, REGISTERED))
        return "registered", since, graces.registration
    return "ready for pods", _at(machine, REGISTERED), graces.initialization


def _reason(machine: Machine) -> str:
    """What the first condition that is not true says."""
    for name in (LAUNCHED, REGISTERED, INITIALIZED):
        condition = machine.conditions.get(name)
        if condition is not None and condition.status != "True":
            said = condition.message or condition.reason
            return f": {said}" if said else ""
    return ""


def records_end(reading: Reading, graces: Graces) -> list[Finding]:
    """Launch records none of whose machines waits for its instance. One that cannot be read may wait."""
    waiting = {one.uid for one in reading.machines if not one.terminating and not one.provider_id}
    waiting |= {one.uid for one in reading.unreadable}
    return [
        Finding(
            f"LaunchRecord/{record.token}",
            "none of its machines waits for an instance",
            f"dovetail logs launcher; kubectl get launchrecord {record.token} -o yaml",
            since=record.created_at,
            twice=True,
        )
        for record in reading.records
        if waiting.isdisjoint(record.uids) and reading.at - record.created_at > graces.record
    ]


def nodes_are_open(reading: Reading, _: Graces) -> list[Finding]:
    """Nodes with the disrupted taint that no command holds and nobody deletes. A cordon may be a person's, so it is
    named only."""
    staying = {
        machine.provider_id: machine
        for machine in reading.machines
        if machine.provider_id and not machine.terminating and holder(machine) is None
    }
    found = []
    for node in reading.nodes:
        if not node.is_managed or node.terminating or node.provider_id not in staying:
            continue
        keys_there = {taint.key for taint in node.taints}
        if DISRUPTED.key in keys_there:
            found.append(_closed(node))
        elif node.unschedulable and not NOTICED & keys_there:
            found.append(_cordoned(node))
    return found


def _closed(node: Node) -> Finding:
    return Finding(
        f"Node/{node.name}",
        f"it has the taint {DISRUPTED.key}, and no command holds it",
        f"dovetail logs scheduler; kubectl taint node {node.name} {DISRUPTED.key}-",
        twice=True,
    )


def _cordoned(node: Node) -> Finding:
    return Finding(
        f"Node/{node.name}",
        "it is cordoned, and no command holds it: was it a person?",
        f"kubectl uncordon {node.name}; the taint is {CORDONED.key}",
        twice=True,
        counts=False,
    )


def _at(machine: Machine, name: str) -> float:
    """When the condition changed last, not before the machine was made."""
    found = machine.conditions.get(name)
    return max(found.since if found is not None else 0.0, machine.created_at)
