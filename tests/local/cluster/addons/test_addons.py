"""The add-ons of EKS on request: their DaemonSets, and the start-up taints that they take off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from local.cluster.addons.catalogue import ADDONS, chosen
from local.stack_plan import StackSettings, plan_stack
from shared.errors import ConfigurationError
from tests.support.cluster.local_cluster import LocalCluster, control_plane
from tests.support.waiting import wait_until

NOT_READY = {"key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoExecute"}
OTHER = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}


def daemons(cluster: LocalCluster) -> set[str]:
    return {one["metadata"]["name"] for one in cluster.store.list("daemonsets", group="apps")}


async def test_each_add_on_runs_on_every_node() -> None:
    async with control_plane(addons="all") as cluster:
        cluster.node("n1")
        wanted = {daemon.name for addon in ADDONS.values() for daemon in addon.daemons}
        assert daemons(cluster) == wanted

        def running() -> list[str]:
            return [
                pod["metadata"]["labels"]["k8s-app"]
                for pod in cluster.store.list("pods")
                if pod["status"].get("phase") == "Running"
            ]

        await wait_until(lambda: sorted(running()) == sorted(wanted), "all run", show=running)
        found = cluster.store.get("csidrivers", "efs.csi.aws.com", group="storage.k8s.io")
        assert found["spec"]["attachRequired"] is False


def test_what_is_not_asked_for_does_not_run() -> None:
    assert list(chosen("kube-proxy, prometheus-node-exporter")) == [
        "kube-proxy",
        "prometheus-node-exporter",
    ]
    assert chosen("none") == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [("vpc-cni,ebs", "no add-on is named 'ebs'; there are vpc-cni, "), ("", "no add-on is named;")],
)
def test_an_unknown_add_on_is_named_beside_the_known_ones(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"add-ons: {problem}"):
        StackSettings(directory=Path("/srv/stack"), addons=text)


def test_a_stack_hands_the_list_to_its_cluster() -> None:
    settings = StackSettings(directory=Path("/srv/stack"), addons="all")
    _, (cluster,), _ = plan_stack(settings, list(range(21_000, 21_008)), {}).waves
    assert cluster.environment["ADDONS"] == "all"


async def test_an_agent_that_is_ready_takes_its_taint_off_and_no_other() -> None:
    def taints() -> list[dict[str, Any]]:
        return list(cluster.store.get("nodes", "n1")["spec"]["taints"])

    async with control_plane(addons="aws-ebs-csi-driver") as cluster:
        cluster.node("n1", taints=[NOT_READY, OTHER])
        await wait_until(lambda: taints() == [OTHER], "the agent's taint is gone", show=taints)
        body = {"spec": {"taints": [OTHER, NOT_READY]}}
        cluster.store.patch("nodes", "n1", body)
        await wait_until(lambda: taints() == [OTHER], "and again", show=taints)
