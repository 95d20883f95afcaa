"""What a pod will request when it is created anew, as a VerticalPodAutoscaler recommends (POD-12). Pure.

A pod that moves is deleted and created again by its controller, and VPA's admission then writes its recommendation into
the new pod. A pod that stays, or waits already, keeps what it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from shared.domain.resources import Resources, add, at_least, sum_of
from shared.domain.workloads.capacity_buffers import PodTemplate
from shared.domain.workloads.pods import Pod

TEMPLATE_HASH = "pod-template-hash"
_RUN_OF_CRON_JOB = re.compile(r"-[0-9]+")
Targets = Mapping[str, Resources]
"""Container name -> amounts of cpu and memory."""


class Recommendation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a VerticalPodAutoscaler that applies it to new pods. ``kind`` and ``target``: the controller of the pods."""

    namespace: str
    name: str
    kind: str
    target: str
    containers: dict[str, dict[str, int]] = {}

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class Recommendations:
    """Those of a cluster. Of several for one controller the first by name counts."""

    def __init__(self, listed: Iterable[Recommendation]) -> None:
        self._found: dict[tuple[str, str, str], Targets] = {}
        for one in sorted(listed, key=lambda one: one.key):
            if one.containers:
                self._found.setdefault((one.namespace, one.kind, one.target), one.containers)

    def __bool__(self) -> bool:
        return bool(self._found)

    def of_pods(self, pods: Iterable[Pod]) -> Iterable[Pod]:
        """The pods, those with ``next_requests`` that will have others when they are created anew."""
        return map(self.of_pod, pods) if self._found else pods

    def of_templates(self, templates: tuple[PodTemplate, ...]) -> tuple[PodTemplate, ...]:
        """The templates of workloads, as their pods will be created."""
        return tuple(map(self._of_template, templates)) if self._found else templates

    def of_pod(self, pod: Pod) -> Pod:
        """The same for one pod."""
        controllers = ((pod.namespace, kind, name) for kind, name in controllers_of(pod))
        return self._with(pod, next((self._found[c] for c in controllers if c in self._found), {}))

    def _of_template(self, template: PodTemplate) -> PodTemplate:
        targets = self._found.get((template.namespace, template.kind, template.name), {})
        return replace(template, pod=created_anew(self._with(template.pod, targets)))

    def _with(self, pod: Pod, targets: Targets) -> Pod:
        parts = pod.parts
        if parts is None or not (parts.containers.keys() & targets.keys()):
            return pod
        own = sum_of({**now, **targets.get(name, {})} for name, now in parts.containers.items())
        total = at_least(add(own, parts.beside), parts.least)
        changed = {
            name: amount for name, amount in total.items() if pod.requests.get(name) != amount
        }
        return replace(pod, next_requests=changed) if changed else pod


def created_anew(pod: Pod) -> Pod:
    """The pod with what it will request when it is created again."""
    if not pod.next_requests:
        return pod
    return replace(pod, requests={**pod.requests, **pod.next_requests}, next_requests={})


def controllers_of(pod: Pod) -> Iterator[tuple[str, str]]:
    """(kind, name) of what may own it: its controller, and the Deployment or CronJob behind that, by their naming."""
    if pod.owner is None:
        return
    kind, name = pod.owner.kind, pod.owner.name
    yield kind, name
    suffix = f"-{pod.labels.get(TEMPLATE_HASH, '')}"
    if kind == "ReplicaSet" and name.endswith(suffix) and len(suffix) > 1:
        yield "Deployment", name.removesuffix(suffix)
    base, dash, run = name.rpartition("-")
    if kind == "Job" and base and _RUN_OF_CRON_JOB.fullmatch(dash + run):
        yield "CronJob", base
