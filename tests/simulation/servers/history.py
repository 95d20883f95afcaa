"""``python -m tests.simulation.servers.history``: prints the digest of everything that both servers report in a short
life with instances, workloads, faults and clients.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from shared.log import configure
from tests.simulation.servers.conftest import Servers, new_servers


def deployment(name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"containers": [{"name": "main", "image": "app"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


async def live(servers: Servers) -> None:
    """Ten minutes."""
    store = servers.cluster.store
    await servers.launch(3)
    for name in ("web", "api", "batch"):
        store.create("deployments", deployment(name, 5), group="apps", namespace="default")
    await asyncio.sleep(60)
    servers.aws.mix_messages(3, 60)
    servers.aws.control("interruptions", {"kind": "rebalance", "where": {"percent": 50, "seed": 2}})
    servers.cluster.stop_kubelets(40, 60)
    await asyncio.sleep(120)
    servers.cluster.relist()
    store.delete("deployments", "api", group="apps", namespace="default")
    await asyncio.sleep(60)
    servers.cluster.roll_back(60)
    async with servers.client("sqs") as sqs:
        url = (await sqs.get_queue_url(QueueName="simulated"))["QueueUrl"]
        for _ in range(5):
            answer = await sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)
            servers.calls += [("body", None, one["Body"]) for one in answer.get("Messages", ())]
    await asyncio.sleep(200)


def main() -> None:
    """Print the digest."""
    configure("critical")
    with tempfile.TemporaryDirectory() as directory:
        servers = new_servers(Path(directory))
        servers.run(live(servers))
    documents = [row for plural in ("pods", "nodes") for row in servers.cluster.store.list(plural)]
    told = repr((servers.changes, servers.states, servers.calls, documents))
    sys.stdout.write(f"{len(servers.changes)} {hashlib.sha256(told.encode()).hexdigest()}\n")


if __name__ == "__main__":
    main()
