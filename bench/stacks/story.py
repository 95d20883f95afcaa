"""A whole scale-out and scale-in on the real local stack: pods come, half of them leave, then the rest.

Run ``python -m bench.stacks.story --pods 3000``. Deployments of 150 pods are created at once; when all of their pods
run they lose half of them, and when consolidation has found nothing more for a minute, the rest. All processes are
real: services, Redis, the embedded API server with its kube-scheduler and kubelets, and the AWS emulator. They share
the machine's cores, so times are those of all of them; "CPU s" tells whose. ``bench.over_time.scale`` plays the same
story with the planner alone. ``--picture FILE`` draws pods, machines and cost as SVG.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from rich.console import Console
from rich.progress import Progress

from bench.over_time.scale import Sample
from bench.over_time.scale_picture import draw
from bench.report import Row, save, show
from bench.stacks.local_stack import Bench, running
from cli.demo.snapshot import price_of
from cli.demo.workload import MANIFESTS
from shared.concurrency.parallel import in_parallel
from shared.kube.resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, Resource

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
PODS, QUICK_PODS = 30_000, 300
PODS_EACH = 150
MOST_CPU = 8
"""With larger types so many pods would fill far fewer nodes than a thousand."""
SAMPLE_SECONDS = 2.0
QUIET_SECONDS = 60.0
"""Consolidation that did nothing for so long has found nothing more."""
PATIENCE_SECONDS = 7200.0
AT_ONCE = 16


@dataclass
class Story:
    """The stack and what was seen of it."""

    bench: Bench
    deployments: int
    begun: float = field(default_factory=time.monotonic)
    wanted: int = 0
    samples: list[Sample] = field(default_factory=list)
    changed_at: float = 0.0
    """When the machines were last other ones, or pods left, in seconds from the beginning."""
    _names: frozenset[str] = frozenset()

    async def prepare(self) -> None:
        """The demo's class, and its pool with consolidation and on-demand machines of at most MOST_CPU."""
        node_class, pool = (
            yaml.safe_load((MANIFESTS / "v1" / f"{name}.yaml").read_text())
            for name in ("ec2nodeclass", "nodepool")
        )
        most = {
            "key": "karpenter.k8s.aws/instance-cpu",
            "operator": "Lt",
            "values": [str(MOST_CPU + 1)],
        }
        requirements = pool["spec"]["template"]["spec"]["requirements"]
        requirements[0]["values"] = ["on-demand"]
        requirements.append(most)
        pool["spec"]["disruption"] |= {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": "10s",
        }
        await self.bench.kube.create(EC2_NODE_CLASSES, node_class)
        await self.bench.kube.create(NODE_POOLS, pool)

    async def create(self) -> None:
        """All deployments, with all of their pods."""
        body = yaml.safe_load((MANIFESTS / "inflate.yaml").read_text())
        await self._each(
            lambda name: self.bench.kube.create(DEPLOYMENTS, _deployment(body, name), "default")
        )
        self.wanted = self.deployments * PODS_EACH

    async def scale(self, replicas: int) -> None:
        """So many pods in each deployment."""
        patch = {"spec": {"replicas": replicas}}
        await self._each(lambda name: self.bench.kube.patch(DEPLOYMENTS, name, patch, "default"))
        self.wanted = self.deployments * replicas
        self.changed_at = time.monotonic() - self.begun

    async def _each(self, act: Callable[[str], Awaitable[Any]]) -> None:
        async def one(name: str) -> None:
            await act(name)

        names = (f"web-{number}" for number in range(self.deployments))
        await in_parallel(map(one, names), most=AT_ONCE)

    async def sample(self) -> Sample:
        """What is there now."""
        found = (await self.bench.kube.list(DEPLOYMENTS, "default")).items
        claims = (await self.bench.kube.list(NODE_CLAIMS)).items
        at = time.monotonic() - self.begun
        names = frozenset(claim["metadata"]["name"] for claim in claims)
        if names != self._names:
            self._names, self.changed_at = names, at
        ready = sum((one.get("status") or {}).get("readyReplicas") or 0 for one in found)
        cost = sum(price_of(claim) or 0.0 for claim in claims)
        now = Sample(at, self.wanted, ready, len(claims), round(cost * 1e6))
        self.samples.append(now)
        return now

    def is_quiet(self, now: Sample) -> bool:
        """All pods run, and the machines have been the same ones for a while."""
        return now.running == now.wanted and now.at - self.changed_at >= QUIET_SECONDS


def _deployment(body: dict[str, Any], name: str) -> dict[str, Any]:
    spec = body["spec"]
    template = {**spec["template"], "metadata": {"labels": {"app": name}}}
    selector = {"matchLabels": {"app": name}}
    spec = {**spec, "replicas": PODS_EACH, "selector": selector, "template": template}
    return {**body, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


class Part(NamedTuple):
    """One part of the story: what begins it, and when it is over."""

    name: str
    begin: Callable[[], Awaitable[None]]
    is_over: Callable[[Sample], bool]


def parts_of(story: Story) -> tuple[Part, ...]:
    """In their order."""
    return (
        Part("all pods", story.create, lambda now: now.running == now.wanted > 0),
        Part("half of them", lambda: story.scale(PODS_EACH // 2), story.is_quiet),
        Part("none", lambda: story.scale(0), lambda now: now.machines == 0),
    )


async def play(story: Story) -> list[Row]:
    """One row for each part. Raises TimeoutError."""
    rows: list[Row] = []
    with Progress(console=Console(stderr=True)) as progress:
        for part in parts_of(story):
            begun, before = time.monotonic(), _cpu_seconds(story.bench)
            await part.begin()
            line = progress.add_task(part.name, total=None)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not part.is_over(now := await story.sample()):
                    text = f"{part.name}: {now.running:,} of {now.wanted:,} pods on {now.machines:,} machines"
                    progress.update(line, description=text)
                    await asyncio.sleep(SAMPLE_SECONDS)
            progress.update(line, total=1, completed=1)
            rows.append(_row(part.name, now, time.monotonic() - begun, before, story.bench))
    return rows


def _cpu_seconds(bench: Bench) -> dict[str, float]:
    return {str(one["process"]): float(str(one["CPU s"])) for one in bench.processes()}


def _row(name: str, now: Sample, seconds: float, before: dict[str, float], bench: Bench) -> Row:
    spent = {key: cpu - before.get(key, 0.0) for key, cpu in _cpu_seconds(bench).items()}
    ours = sum(_of(spent, ("watcher", "scheduler", "launcher", "terminator", "interruption")))
    return {
        "part": name,
        "pods": now.running,
        "machines": now.machines,
        "$/h": round(now.micro_usd_per_hour / 1e6, 2),
        "seconds": round(seconds),
        "CPU s of the five services": round(ours, 1),
        "of the scheduler": round(spent["scheduler"], 1),
        "of Redis and the emulators": round(sum(spent.values()) - ours, 1),
    }


def _of(spent: dict[str, float], names: Iterable[str]) -> Iterable[float]:
    return (spent[name] for name in names)


async def measure(pods: int) -> tuple[list[Row], list[Row], str]:
    """The parts of the story, the processes at its end, and the picture as SVG."""
    async with running() as bench:
        story = Story(bench, max(1, pods // PODS_EACH))
        await story.prepare()
        rows = await play(story)
        title = f"{story.deployments * PODS_EACH:,} pods, half of them, none, on a local stack"
        return rows, bench.processes(), draw(story.samples, title)


def main() -> None:
    """Plays the story and prints its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PODS} pods")
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows to this file")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the story as SVG")
    chosen = parser.parse_args()
    pods = QUICK_PODS if chosen.quick else chosen.pods
    rows, processes, picture = asyncio.run(measure(pods))
    show("Scale on a local stack", rows)
    show("Its processes", processes)
    save(chosen.json, {"story": rows, "processes": processes})
    if chosen.picture:
        chosen.picture.write_text(picture)


if __name__ == "__main__":
    main()
