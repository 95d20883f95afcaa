"""``POST /explain`` and ``GET /explain/…``: why a node is still there or a pod pending, and what would have to change.

About a node it answers from what the last passes of disruption found, and evaluates nothing anew. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from services.scheduler.disruption.commands import Commands
from services.scheduler.disruption.methods import Findings
from services.scheduler.state.cluster import View
from services.scheduler.status.explain_cost import CostExplainer
from services.scheduler.status.explain_decision import DecisionExplainer
from services.scheduler.status.explain_pod import PodExplainer
from services.scheduler.status.explain_pool import PoolExplainer
from services.scheduler.status.explain_purchase import Purchases
from shared.disruption.advice import (
    KEEPS_ROOM,
    NO_BUDGET,
    POOL_SWITCHED_OFF,
    SWITCHED_OFF,
    change_for,
)
from shared.disruption.budgets import reported_reasons
from shared.disruption.methods.expiration import expires_at
from shared.disruption.records import BLOCKED, Candidate, Command, Rejection
from shared.domain.machines.machine import INITIALIZED, Machine
from shared.domain.workloads.pods import is_reschedulable
from shared.runtime.services import Answer, json_answer
from shared.settings import SchedulerSettings

PATH = "/explain"
PODS, NODES, POOLS = (
    "/explain/pods/{pod:text}",
    "/explain/nodes/{node}",
    "/explain/pools/{pool:text}",
)
"""The same by GET. A pod is NAMESPACE/NAME or a name, a pool NAME or KIND/NAME."""
KINDS = ("node", "pod", "pool", "cost", "decision")
MOST_BYTES = 4096
BODY = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in KINDS},
}
STANDBY = "this replica is a standby and decides nothing; ask again: another one leads"
NOT_EVALUATED = "no pass has looked at this node yet; ask again in some seconds"


@dataclass
class Explainer:
    """Answers about one node or pod at a time."""

    settings: SchedulerSettings
    view: View
    findings: Findings
    commands: Commands
    proposed: Callable[[], list[Command]]
    """Commands that wait for their validation."""
    pods: PodExplainer
    cost: CostExplainer
    decisions: DecisionExplainer
    pools: PoolExplainer
    purchases: Purchases
    leading: Callable[[], bool]

    async def answer(self, body: bytes, query: Mapping[str, str]) -> Answer:
        """Body or query: ``node`` names a node or a machine, ``pod`` a pod as namespace/name, ``pool`` a pool,
        ``cost`` is ``all``, ``decision`` is the id of a plan."""
        if query.get("cost") or _named(body, "cost"):
            return await self.cost.answer()
        pool = query.get("pool") or _named(body, "pool")
        if pool:
            return await self.pools.answer(pool)
        decision = query.get("decision") or _named(body, "decision")
        pod = query.get("pod") or _named(body, "pod")
        if not self.leading() and (decision or not pod):
            # Passes and plans are the leader's. A Service chooses a replica by chance, so a client asks again.
            return json_answer(503, {"error": STANDBY, "standby": True})
        if decision:
            return await self.decisions.answer(decision)
        if pod:
            return await self.pods.answer(pod)
        name = query.get("node") or _named(body, "node")
        if not name:
            text = 'name a node: {"node": "ip-10-0-0-1"}, a pod: {"pod": "default/web"}, or a pool: {"pool": "default"}'
            return json_answer(400, {"error": text})
        machine = self._machine(name)
        if machine is None:
            return json_answer(
                404, {"error": f"no machine of ours is or has the node {name[:253]!r}"}
            )
        document = self._explain(machine)
        document["bought"] = self.purchases.of_machine(machine)
        document["alternatives"] = await self.purchases.alternatives(machine)
        return json_answer(200, document)

    def _machine(self, name: str) -> Machine | None:
        machines = self.view.machines()
        return next((m for m in machines if name in (m.node_name, m.name)), None)

    def _explain(self, machine: Machine) -> dict[str, Any]:
        candidate = next(
            (c for c in self.findings.candidates if c.machine.uid == machine.uid), None
        )
        found = self.commands.record_of(machine.key)
        takes = ((c, {one.machine.uid for one in c.candidates}) for c in self.proposed())
        proposal = next((c for c, uids in takes if machine.uid in uids), None)
        rejections = list(self.findings.about(machine.key))
        if not rejections and candidate is None and found is None:
            rejections = [("", _rejection(machine, NOT_EVALUATED))]
        if candidate is not None and candidate.blocker and not rejections:
            # The last pass ended before a method that reports it.
            text, pod = candidate.blocker, candidate.blocking_pod
            rejections = [("candidates", candidate.refused(text, event=BLOCKED, pod=pod))]
        virtual = [pod.key for pod in candidate.pods if pod.virtual] if candidate else []
        if virtual:
            rejections.insert(
                0, ("", _rejection(machine, f"{KEEPS_ROOM} {len(virtual)} pod(s) to come"))
            )
        rejections = [*(("", hold) for hold in self._holds(machine)), *rejections]
        return {
            "node": machine.node_name,
            "machine": machine.key,
            "nodePool": machine.pool_key,
            "instanceType": machine.instance_type,
            "zone": machine.zone,
            "capacityType": machine.capacity_type,
            "pricePerHour": _price(machine, candidate),
            "pods": [*self._pods(machine), *virtual],
            "terminating": machine.terminating,
            "expires": self._expires(machine),
            "conditions": {
                name: c.status + (f" ({c.reason})" if c.reason != name else "")
                for name, c in sorted(machine.conditions.items())
            },
            "command": found.text if found else "",
            "proposal": proposal.text if proposal else "",
            "candidate": _candidate(candidate) if candidate else None,
            "staysBecause": [_line(method, r, machine) for method, r in rejections],
        }

    def _expires(self, machine: Machine) -> dict[str, Any] | None:
        at = expires_at(machine, self.view.pools().get(machine.pool_key))
        return None if at is None else {"at": at, "replacedFirst": machine.api.replaces_expired}

    def _pods(self, machine: Machine) -> list[str]:
        """Pods that would have to move; daemons stay with their node."""
        if not machine.node_name:
            return []
        return sorted(
            pod.key
            for pod in self.view.pods()
            if pod.node_name == machine.node_name and is_reschedulable(pod)
        )

    def _holds(self, machine: Machine) -> Iterable[Rejection]:
        """What holds every machine of its pool."""
        pool = self.view.pools().get(machine.pool_key)
        off = self.settings.disruption == "off"
        if off:
            yield _rejection(machine, SWITCHED_OFF)
        if pool is None:
            return
        if pool.disruption_off:
            yield _rejection(machine, POOL_SWITCHED_OFF)
        elif off or not machine.has(INITIALIZED):
            return  # every budget is nothing then, or does not count it yet
        elif pool.budgets or pool.most_disruptions_per_hour is not None:
            reported = reported_reasons(pool)
            for reason in filter(reported.__contains__, self.findings.exhausted(pool.key)):
                yield _rejection(machine, f"{NO_BUDGET} {reason} due to blocking budget")


def _rejection(machine: Machine, text: str) -> Rejection:
    return Rejection(machine.key, machine.node_name, "", text)


def _line(method: str, rejection: Rejection, machine: Machine) -> dict[str, str]:
    return {
        "method": method,
        "event": rejection.event,
        "reason": rejection.reason,
        "text": rejection.text,
        "pod": rejection.pod,
        "change": change_for(rejection.text, machine, rejection.pod),
    }


def _price(machine: Machine, candidate: Candidate | None) -> float | None:
    """Dollars an hour: of the catalogue now, or what was thought at its launch."""
    if candidate is not None and candidate.price_micro_usd_per_hour is not None:
        return candidate.price_micro_usd_per_hour / 1e6
    return None if machine.noted_price is None else machine.noted_price / 1e6


def _candidate(candidate: Candidate) -> dict[str, Any]:
    price = candidate.price_micro_usd_per_hour
    return {
        "pricePerHour": None if price is None else price / 1e6,
        "pods": [pod.key for pod in candidate.pods],
        "empty": candidate.empty,
        "blockedBy": candidate.blocker,
        "blockingPod": candidate.blocking_pod,
    }


def _named(body: bytes, kind: str) -> str:
    try:
        document = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError:
        return ""
    named = document.get(kind) if isinstance(document, dict) else None
    return named if isinstance(named, str) else ""
