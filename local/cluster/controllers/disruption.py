"""The disruption controller keeps the status of PodDisruptionBudgets, which evictions are checked against.

Computed as in kube-controller-manager's ``disruption.go``. ``minAvailable`` as a number counts existing pods; a
percentage, and ``maxUnavailable``, count the replicas of the pods' controllers, so they fail for pods without a
controller. An eviction records its pod in ``disruptedPods``; the entry is removed when the pod is being deleted, or
after two minutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from local.cluster.control_plane.conditions import with_conditions
from local.cluster.control_plane.informers import Informers, Key, Obj, find, key_of
from local.cluster.controllers.deployment import share_of
from local.cluster.controllers.pod_templates import is_ready, phase
from local.cluster.controllers.workqueue import Controller
from local.cluster.storage.selectors import selector_matches
from local.cluster.storage.store import Store
from shared.concurrency.clock import Clock, parse_rfc3339, rfc3339

DISRUPTED_SECONDS = 120.0
SCALABLE = {
    "ReplicaSet": ("replicasets", "apps"),
    "Deployment": ("deployments", "apps"),
    "StatefulSet": ("statefulsets", "apps"),
    "ReplicationController": ("replicationcontrollers", ""),
}


class NoScale(Exception):
    """The controller of a pod, and so the expected number of pods, is unknown."""


@dataclass(frozen=True)
class Numbers:
    """Expected and desired numbers of healthy pods."""

    expected: int
    desired: int


class DisruptionController(Controller):
    """Writes the status of PodDisruptionBudgets."""

    name, plural, group = "disruption", "poddisruptionbudgets", "policy"

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store)
        self._clock = clock
        self._budgets: dict[str, dict[Key, None]] = {}

    def register(self, informers: Informers) -> None:
        """Watch budgets, the pods of their namespace, and the pods' controllers."""
        informers.on(self.plural, self._on_budget, group=self.group)
        informers.on("pods", self._on_pod)
        for plural, group in SCALABLE.values():
            informers.on(plural, self._on_owner, group=group)

    def _on_budget(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        key = key_of(obj)
        if event_type == "DELETED":
            self._budgets.get(key.namespace, {}).pop(key, None)
            return
        self._budgets.setdefault(key.namespace, {})[key] = None
        self.queue.add(key)

    def _on_pod(self, _event_type: str, obj: Obj, _old: Obj | None) -> None:
        labels = obj["metadata"].get("labels") or {}
        for key in self._budgets.get(obj["metadata"]["namespace"], ()):
            budget = self.find(key)
            if budget and selector_matches(budget["spec"].get("selector"), labels):
                self.queue.add(key)

    def _on_owner(self, _event_type: str, obj: Obj, old: Obj | None) -> None:
        if old is not None and old["spec"].get("replicas") == obj["spec"].get("replicas"):
            return
        for key in self._budgets.get(obj["metadata"]["namespace"], ()):
            self.queue.add(key)

    async def reconcile(self, key: Key) -> float | None:
        """Count and write the status. Runs again when an entry of disruptedPods expires."""
        budget = self.find(key)
        if budget is None:
            return None
        pods = self._pods(budget)
        disrupted = self._disrupted(budget, pods)
        try:
            numbers = self._numbers(budget, pods)
        except NoScale as error:
            self._write(budget, _failed_status(str(error)))
            return None
        healthy = sum(
            is_ready(pod)
            and not pod["metadata"].get("deletionTimestamp")
            and pod["metadata"]["name"] not in disrupted
            for pod in pods
        )
        self._write(budget, _status(numbers, healthy, disrupted))
        return DISRUPTED_SECONDS if disrupted else None

    def _pods(self, budget: Obj) -> list[Obj]:
        selector = budget["spec"].get("selector")
        return [
            pod
            for pod in self._store.list("pods", namespace=budget["metadata"]["namespace"])
            if phase(pod) not in ("Succeeded", "Failed")
            and selector_matches(selector, pod["metadata"].get("labels") or {})
        ]

    def _disrupted(self, budget: Obj, pods: list[Obj]) -> dict[str, str]:
        now = self._clock.now()
        staying = {
            p["metadata"]["name"] for p in pods if not p["metadata"].get("deletionTimestamp")
        }
        noted: dict[str, str] = (budget.get("status") or {}).get("disruptedPods") or {}
        return {
            name: at
            for name, at in noted.items()
            if name in staying and now - parse_rfc3339(at) < DISRUPTED_SECONDS
        }

    def _numbers(self, budget: Obj, pods: list[Obj]) -> Numbers:
        spec = budget["spec"]
        if spec.get("maxUnavailable") is not None:
            expected = self._expected(pods)
            most = share_of(spec["maxUnavailable"], expected, default="0", round_up=True)
            return Numbers(expected, max(expected - most, 0))
        least = spec.get("minAvailable", 1)
        if isinstance(least, int):
            return Numbers(len(pods), least)
        expected = self._expected(pods)
        return Numbers(expected, share_of(least, expected, default="0", round_up=True))

    def _expected(self, pods: list[Obj]) -> int:
        replicas: dict[str, int] = {}
        for pod in pods:
            owner = self._scaled_owner(pod)
            if owner is None:
                name = pod["metadata"]["name"]
                raise NoScale(f'found no controller with a scale for pod "{name}"')
            replicas[owner["metadata"]["uid"]] = int(owner["spec"].get("replicas", 1))
        return sum(replicas.values())

    def _scaled_owner(self, obj: Obj) -> Obj | None:
        """The topmost controller with replicas."""
        for reference in obj["metadata"].get("ownerReferences") or ():
            if not reference.get("controller") or reference["kind"] not in SCALABLE:
                continue
            plural, group = SCALABLE[reference["kind"]]
            key = Key(obj["metadata"]["namespace"], reference["name"])
            owner = find(self._store, plural, key, group=group)
            if owner is not None and owner["metadata"]["uid"] == reference["uid"]:
                return self._scaled_owner(owner) or owner
        return None

    def _write(self, budget: Obj, status: dict[str, Any]) -> None:
        now, before = rfc3339(self._clock.now()), budget.get("status") or {}
        generation = budget["metadata"].get("generation", 1)
        for condition in status["conditions"]:
            condition["observedGeneration"] = generation
        conditions = with_conditions(before.get("conditions"), status["conditions"], now)
        self.set_status(
            budget, {**status, "observedGeneration": generation, "conditions": conditions}
        )


def _status(numbers: Numbers, healthy: int, disrupted: dict[str, str]) -> dict[str, Any]:
    allowed = max(healthy - numbers.desired, 0) if numbers.expected > 0 else 0
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }
    return {
        "currentHealthy": healthy,
        "desiredHealthy": numbers.desired,
        "disruptionsAllowed": allowed,
        "expectedPods": numbers.expected,
        **({"disruptedPods": disrupted} if disrupted else {}),
        "conditions": [condition],
    }


def _failed_status(message: str) -> dict[str, Any]:
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "SyncFailed",
        "message": message,
    }
    zero = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
    return {**dict.fromkeys(zero, 0), "conditions": [condition]}
