"""Latency from the last of 400 pods to CreateFleet, without the batch window.

Start a stack (`dovetail up --detach`), source its environment, and run `python -m bench.latency`. It prints the time
beyond the idle window, per round and as a median. Pods are timed by a watch, CreateFleet by the AWS emulator; both use
this machine's clock.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import time
from contextlib import aclosing

import aiohttp
import yaml

from cli.demo.workload import MANIFESTS
from shared.concurrency.clock import SystemClock
from shared.errors import AlreadyExists
from shared.kube.client import Kube
from shared.kube.resources import AWS_NODE_TEMPLATES, MACHINES, PODS, PROVISIONERS, Resource

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
PODS_WANTED = 400
IDLE_SECONDS = 1.0
ROUNDS = 3
ROUND_SECONDS = 120
NEEDED = ("KUBECONFIG", "AWS_ENDPOINT_URL")


async def apply(kube: Kube) -> None:
    """Applies the demo's pool, class and workload, with a short TTL."""
    for name, resource in (
        ("awsnodetemplate", AWS_NODE_TEMPLATES),
        ("provisioner", PROVISIONERS),
        ("inflate", DEPLOYMENTS),
    ):
        body = yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text())
        if name == "provisioner":
            body["spec"]["ttlSecondsAfterEmpty"] = 1
        try:
            await kube.create(resource, body, body["metadata"].get("namespace"))
        except AlreadyExists:
            continue


async def scale(kube: Kube, replicas: int) -> None:
    """Sets the Deployment's replicas."""
    await kube.patch(DEPLOYMENTS, "inflate", {"spec": {"replicas": replicas}}, "default")


async def last_pod_added(kube: Kube) -> float:
    """Epoch seconds at which the last of the wanted pods was seen."""
    listed = await kube.list(PODS, "default")
    await scale(kube, PODS_WANTED)
    seen = 0
    async with aclosing(kube.watch(PODS, listed.resource_version)) as events:
        async for event in events:
            is_ours = event.object["metadata"].get("namespace") == "default"
            seen += event.type == "ADDED" and is_ours
            if seen == PODS_WANTED:
                return time.time()
    raise RuntimeError("the watch ended before all pods were there")


async def create_fleet_at(session: aiohttp.ClientSession, since: float) -> float:
    """Epoch seconds of the first CreateFleet after ``since``."""
    url = os.environ["AWS_ENDPOINT_URL"] + "/_dovetail/calls?action=CreateFleet"
    while True:
        async with session.get(url) as answer:
            calls = [c["at"] for c in (await answer.json())["calls"] if c["at"] > since]
        if calls:
            return float(min(calls))
        await asyncio.sleep(0.05)


async def machines_gone(kube: Kube) -> None:
    """Waits until there are no machines, so that every round starts from an empty cluster."""
    while (await kube.list(MACHINES)).items:  # noqa: ASYNC110  # the cluster has no event for this
        await asyncio.sleep(0.5)


async def one_round(kube: Kube, session: aiohttp.ClientSession) -> float:
    """Milliseconds beyond the idle window."""
    added = await last_pod_added(kube)
    launched = await create_fleet_at(session, added)
    await scale(kube, 0)
    await machines_gone(kube)
    return (launched - added - IDLE_SECONDS) * 1000


async def measure() -> None:
    """Runs the rounds and prints their latencies."""
    clock = SystemClock()
    kube = await Kube.connect(
        os.environ["KUBECONFIG"], clock=clock, random=random.Random(0), user_agent="bench"
    )
    async with aiohttp.ClientSession() as session:
        await apply(kube)
        await asyncio.sleep(
            3
        )  # the launcher resolves the class; the first plan must not wait for it
        results = []
        for number in range(ROUNDS):
            async with asyncio.timeout(ROUND_SECONDS):
                results.append(await one_round(kube, session))
            print(f"round {number + 1}: window + {results[-1]:.0f} ms")
    await kube.close()
    print(f"median: window + {statistics.median(results):.0f} ms (target: window + 300 ms)")


def main() -> None:
    """Measures the stack of the environment. Exits with an error when there is none."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    if missing := [name for name in NEEDED if not os.environ.get(name)]:
        sys.exit(f"{', '.join(missing)} not set: run `make up`, then `source .dovetail/env`")
    asyncio.run(measure())


if __name__ == "__main__":
    main()
