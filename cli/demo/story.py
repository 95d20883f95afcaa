"""The story: a pool, a workload that grows, something that happens to it, nothing left.

``play`` runs one scenario against any running stack and returns its report, also when it fails.

What may go wrong: a phase that does not end in time fails the story; the report then says which
one and why. Errors that no retry cures (a refused object, missing CRDs) fail it at once.
"""

from __future__ import annotations

import asyncio
from random import Random

from cli.demo import workload
from cli.demo.display import Display
from cli.demo.report import Report, build_report
from cli.demo.scenarios import Act, Scenario
from cli.demo.settings import DemoSettings
from cli.demo.snapshot import NodeView, Observer, Snapshot
from cli.demo.stage import POLL_SECONDS, Stage, StoryFailed
from cli.demo.timeline import Timeline
from cli.emulator import Emulator
from cli.environment import Environment
from cli.queues import queue_depths
from shared.clock import Clock
from shared.domain.machines import INITIALIZED
from shared.domain.nodepools import CLASS_KINDS, POOL_KINDS
from shared.errors import DovetailError, TransientError
from shared.kube.client import Kube
from shared.kube.resources import NODES


async def play(
    scenario: Scenario,
    settings: DemoSettings,
    environment: Environment,
    display: Display,
    clock: Clock,
) -> Report:
    """Play ``scenario`` and report. Raises ConfigurationError for an unusable kubeconfig only."""
    kube = await Kube.connect(
        environment.kubeconfig, clock=clock, random=Random(), user_agent="dovetail-demo"
    )
    emulator = Emulator(environment.aws_endpoint_url, environment.cluster_name)
    stage = Stage(
        scenario,
        settings,
        environment,
        kube,
        emulator,
        Observer(kube, emulator),
        Timeline(clock),
        display,
    )
    failure = ""
    try:
        await _acts(stage)
    except DovetailError as error:
        failure = error.message
    finally:
        await kube.close()
    return build_report(stage, failure)


async def _acts(stage: Stage) -> None:
    await stage.observer.start()
    await _apply(stage)
    await _grow(stage)
    if stage.scenario.act is Act.SPOT_INTERRUPTION:
        await _interrupt(stage)
    elif stage.scenario.act is Act.NODE_DELETE:
        await _delete_node(stage)
    _check_nodes(stage)
    await _shrink(stage)
    await _check_queues(stage)


async def _apply(stage: Stage) -> None:
    generation = stage.scenario.generation_api
    kinds = f"{POOL_KINDS[generation]}, {CLASS_KINDS[generation]}"
    async with stage.phase(f"apply {kinds} and Deployment"):
        cluster = stage.environment.cluster_name
        ttl = stage.settings.ttl_seconds_after_empty
        await workload.apply_pool(stage.kube, cluster, ttl, generation)
        document = workload.deployment(stage.scenario)
        await workload.apply(stage.kube, workload.DEPLOYMENTS, document)


async def _grow(stage: Stage) -> None:
    wanted = stage.scenario.pods
    async with stage.phase(f"scale inflate from 0 to {wanted}"):
        await workload.scale(stage.kube, wanted)
        await stage.until(lambda s: s.total == wanted, f"not all {wanted} pods were created")
    async with stage.phase("batch, pack, CreateFleet"):
        await stage.until(
            lambda s: bool(s.live_instances) or s.running == wanted, "no instance was launched"
        )
    async with stage.phase("instances boot, nodes join"):
        await stage.until(
            lambda s: any(node.ready for node in s.nodes) or s.running == wanted,
            "no added node became ready",
        )
    async with stage.phase(f"all {wanted} pods run"):
        await stage.until(
            lambda s: s.running == wanted and _all_initialized(s),
            f"not all {wanted} pods run on initialized nodes",
        )
    _remember(stage)


def _all_initialized(snapshot: Snapshot) -> bool:
    machines = [machine for machine in snapshot.machines if not machine.leaving]
    return all(INITIALIZED in machine.reached for machine in machines)


def _remember(stage: Stage) -> None:
    """Keep what the report shows: the workload when it is complete."""
    snapshot = stage.snapshot
    stage.pods = (snapshot.total, snapshot.running, snapshot.pending)
    stage.nodes = tuple(node for node in snapshot.nodes if not node.leaving)


def _check_nodes(stage: Stage) -> None:
    scenario, count = stage.scenario, len(stage.nodes)
    wanted = f"{scenario.least_nodes} to {scenario.most_nodes}"
    right = scenario.least_nodes <= count <= scenario.most_nodes
    stage.check("added nodes", right, f"{count} (expected {wanted})")
    spots = all(node.capacity_type == "spot" for node in stage.nodes)
    stage.check("capacity type", spots, "all spot" if spots else "not all are spot")
    launched = len(stage.launched)
    most = scenario.most_nodes * (1 if scenario.act is Act.NOTHING else 2)
    stage.check("instances launched", launched <= most, f"{launched} (at most {most})")


def _busiest(stage: Stage) -> NodeView:
    return max(stage.nodes, key=lambda node: (node.pods, node.name))


async def _interrupt(stage: Stage) -> None:
    old = _busiest(stage)
    async with stage.phase(f"spot interruption notice for {old.name}"):
        await stage.emulator.interrupt(_instance_id(old))
        await stage.until(
            lambda s: (
                any(m.provider_id == old.provider_id and m.leaving for m in s.machines)
                or all(m.provider_id != old.provider_id for m in s.machines)
            ),
            "the interrupted Machine was not deleted",
        )
    new = await _replace(stage, old)
    pool = (old.instance_type, old.zone)
    avoided = all((node.instance_type, node.zone) != pool for node in new)
    detail = f"{old.instance_type} in {old.zone} is " + ("avoided" if avoided else "bought again")
    stage.check("interrupted offering", avoided, detail)


async def _delete_node(stage: Stage) -> None:
    old = _busiest(stage)
    async with stage.phase(f"kubectl delete node {old.name}"):
        await stage.kube.delete(NODES, old.name)
        await stage.until(
            lambda s: all(node.leaving for node in s.nodes if node.name == old.name),
            "the node was not marked for deletion",
        )
    await _replace(stage, old)


async def _replace(stage: Stage, old: NodeView) -> tuple[NodeView, ...]:
    """Wait until ``old`` is gone for good and its pods run elsewhere; the nodes then."""
    wanted = stage.scenario.pods
    async with stage.phase("drain, replace, terminate"):
        await stage.until(
            lambda s: (
                s.running == wanted
                and all(node.provider_id != old.provider_id for node in s.nodes)
                and all(i.instance_id != _instance_id(old) for i in s.live_instances)
                and _all_initialized(s)
            ),
            f"{old.name} is not replaced and gone, with all {wanted} pods running elsewhere",
        )
    _remember(stage)
    return stage.nodes


def _instance_id(node: NodeView) -> str:
    return node.provider_id.rpartition("/")[2]


async def _shrink(stage: Stage) -> None:
    async with stage.phase("scale inflate to 0"):
        await workload.scale(stage.kube, 0)
        await stage.until(lambda s: not s.pods, "not all pods went away")
    ttl = stage.settings.ttl_seconds_after_empty
    async with stage.phase(f"the nodes stay empty for {ttl} s"):
        await stage.until(
            lambda s: all(machine.leaving for machine in s.machines),
            "the empty nodes' Machines were not deleted",
        )
    async with stage.phase("cordon, drain, terminate, remove finalizers"):
        await stage.until(
            lambda s: not s.machines and not s.nodes and not s.live_instances,
            "Machines, nodes or instances are left",
        )
        await stage.until(
            lambda s: all(instance.state == "terminated" for instance in s.instances),
            "an instance is not terminated",
        )


async def _check_queues(stage: Stage) -> None:
    async with stage.phase("streams drained, no dead letters"):
        missing = "no answer"
        while missing:
            missing = await _queue_trouble(stage)
            if missing and stage.timeline.elapsed() > stage.scenario.timeout_seconds:
                raise StoryFailed(f"streams are not empty: {missing}")
            if missing:
                await asyncio.sleep(POLL_SECONDS)
    stage.check("streams", ok=True, detail="drained, no dead letters")


async def _queue_trouble(stage: Stage) -> str:
    """What is not drained; empty when all is. A dead letter never goes: raises StoryFailed."""
    environment = stage.environment
    try:
        depths = await queue_depths(environment.redis_url, environment.cluster_name)
    except TransientError as error:
        return error.message
    if dead := {depth.stream: depth.dead for depth in depths if depth.dead}:
        raise StoryFailed(f"dead letters: {dead}")
    return ", ".join(f"{depth.stream}/{depth.group}" for depth in depths if not depth.drained)
