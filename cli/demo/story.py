"""Runs one scenario: create a pool, scale a workload up, apply the act, scale to zero, check that nothing is left.

``play`` runs a scenario against any running stack and returns its report, also after a failure.

A phase that does not end before the deadline fails the scenario; the report names the phase and the reason. Permanent
errors (a refused object, missing CRDs) fail it at once.
"""

from __future__ import annotations

import asyncio

from cli.cloud.emulator import Emulator
from cli.demo import workload
from cli.demo.acts import all_initialized, halve, remember
from cli.demo.display import Display
from cli.demo.report import Report, build_report
from cli.demo.scenarios import Scenario
from cli.demo.settings import DemoSettings
from cli.demo.snapshot import Observer
from cli.demo.stage import POLL_SECONDS, Stage, StoryFailed
from cli.demo.timeline import Timeline
from cli.operations.queues import queue_depths
from cli.stack.cluster import connected
from cli.stack.environment import Environment
from shared.concurrency.clock import Clock
from shared.domain.pools.generations import GENERATIONS
from shared.errors import DovetailError, TransientError


async def play(
    scenario: Scenario,
    settings: DemoSettings,
    environment: Environment,
    display: Display,
    clock: Clock,
) -> Report:
    """Run ``scenario`` and return its report. Raises only ConfigurationError, for an unusable kubeconfig."""
    async with connected(environment.kubeconfig, command="demo") as kube:
        emulator = Emulator(environment.aws_endpoint_url, environment.cluster_name)
        observer = Observer(kube, emulator)
        timeline = Timeline(clock)
        stage = Stage(scenario, settings, environment, kube, emulator, observer, timeline, display)
        failure = ""
        try:
            await _acts(stage)
        except DovetailError as error:
            failure = error.message
    return build_report(stage, failure)


async def _acts(stage: Stage) -> None:
    # Before anything is created: instances that ended earlier would count as launched by this scenario.
    await stage.observer.start()
    await _apply(stage)
    await _grow(stage)
    if stage.scenario.act is not None:
        await stage.scenario.act(stage)
    _check_nodes(stage)
    await _shrink(stage)
    await _check_queues(stage)


async def _apply(stage: Stage) -> None:
    generation = stage.scenario.generation_api
    api = GENERATIONS[generation]
    async with stage.phase(f"apply {api.pool_kind}, {api.class_kind} and Deployment"):
        cluster = stage.environment.cluster_name
        ttl = stage.settings.ttl_seconds_after_empty
        await workload.apply_pool(
            stage.kube,
            cluster,
            ttl,
            generation,
            capacity_type=stage.scenario.capacity_type,
            changes=stage.scenario.pool_changes,
        )
        document = workload.deployment(stage.scenario)
        await workload.apply(stage.kube, workload.DEPLOYMENTS, document)


async def _grow(stage: Stage) -> None:
    pods = stage.scenario.pods
    async with stage.phase(f"scale inflate from 0 to {pods}"):
        await workload.scale(stage.kube, pods)
        await stage.until(lambda s: s.total == pods, f"not all {pods} pods were created")
    async with stage.phase("batch, pack, CreateFleet"):
        await stage.until(
            lambda s: bool(s.live_instances) or s.running == pods, "no instance was launched"
        )
    async with stage.phase("instances boot, nodes join"):
        await stage.until(
            lambda s: any(node.ready for node in s.nodes) or s.running == pods,
            "no added node became ready",
        )
    async with stage.phase(f"all {pods} pods run"):
        await stage.until(
            lambda s: s.running == pods and all_initialized(s),
            f"not all {pods} pods run on initialized nodes",
        )
    remember(stage)


def _check_nodes(stage: Stage) -> None:
    scenario, count = stage.scenario, len(stage.nodes)
    expected = f"{scenario.least_nodes} to {scenario.most_nodes}"
    right = scenario.least_nodes <= count <= scenario.most_nodes
    stage.check("added nodes", right, f"{count} (expected {expected})")
    market = scenario.capacity_type
    bought = all(node.capacity_type == market for node in stage.nodes)
    stage.check("capacity type", bought, f"all {market}" if bought else f"not all are {market}")
    launched = len(stage.launched)
    most = scenario.most_nodes * (1 if scenario.act is None else 2)
    stage.check("instances launched", launched <= most, f"{launched} (at most {most})")


async def _shrink(stage: Stage) -> None:
    async with stage.phase("scale inflate to 0"):
        await workload.scale(stage.kube, 0)
        await stage.until(lambda s: not s.pods, "not all pods went away")
    ttl = stage.settings.ttl_seconds_after_empty
    consolidated = stage.scenario.act is halve
    title = (
        "the empty nodes are found" if consolidated else f"the nodes stay empty, {ttl} s at least"
    )
    async with stage.phase(title):
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
        while missing := await _undrained(stage):
            if stage.timeline.elapsed() > stage.scenario.timeout_seconds:
                raise StoryFailed(f"streams are not empty: {missing}")
            await asyncio.sleep(POLL_SECONDS)
    stage.check("streams", ok=True, detail="drained, no dead letters")


async def _undrained(stage: Stage) -> str:
    """The streams that are not drained, or an empty text. Raises StoryFailed for a dead letter, which stays."""
    environment = stage.environment
    try:
        depths = await queue_depths(environment.redis_url, environment.cluster_name)
    except TransientError as error:
        return error.message
    if dead := {depth.stream: depth.dead for depth in depths if depth.dead}:
        raise StoryFailed(f"dead letters: {dead}")
    return ", ".join(f"{depth.stream}/{depth.group}" for depth in depths if not depth.drained)
