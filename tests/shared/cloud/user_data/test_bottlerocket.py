"""Bottlerocket (LCH-33)."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from shared.cloud.user_data.rendering import render
from shared.errors import InvalidObject
from tests.support.aws.boot_data import bootstrap


def settings_of(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(render("Bottlerocket", bootstrap(**changes)))["settings"]
    return found


def test_settings_say_all_that_the_node_must_know() -> None:
    """LCH-33: boot data of Bottlerocket."""
    taints = [("t", "a", "NoSchedule"), ("t", "", "NoExecute"), ("u", "b", "NoSchedule")]
    found = settings_of(
        labels={"team": "a", "karpenter.sh/nodepool": "default"},
        taints=taints,
        max_pods=58,
        cluster_dns="10.100.0.10",
    )
    assert found == {
        "kubernetes": {
            "cluster-name": "demo",
            "api-server": "https://demo.example",
            "cluster-certificate": "Q0E=",
            "max-pods": 58,
            "cluster-dns-ip": "10.100.0.10",
            "node-labels": {"team": "a", "karpenter.sh/nodepool": "default"},
            "node-taints": {"t": ["a:NoSchedule", ":NoExecute"], "u": ["b:NoSchedule"]},
        }
    }


def test_kubelet_settings_have_bottlerockets_names_and_types() -> None:
    """P-20..P-23, EC-10; IT-13: there is no podsPerCore."""
    kubelet = {
        "podsPerCore": 4,
        "systemReserved": {"cpu": "100m"},
        "kubeReserved": {"cpu": 1},
        "evictionHard": {"memory.available": "5%"},
        "evictionSoft": {"memory.available": "10%"},
        "evictionSoftGracePeriod": {"memory.available": "1m"},
        "evictionMaxPodGracePeriod": 60,
        "imageGCHighThresholdPercent": 85,
        "imageGCLowThresholdPercent": 80,
        "cpuCFSQuota": False,
        "clusterDNS": ["10.0.0.10", "10.0.0.11"],
    }
    found = settings_of(kubelet=kubelet)["kubernetes"]
    known = ("cluster-name", "api-server", "cluster-certificate", "node-taints")
    assert {name: value for name, value in found.items() if name not in known} == {
        "system-reserved": {"cpu": "100m"},
        "kube-reserved": {"cpu": "1"},
        "eviction-hard": {"memory.available": "5%"},
        "eviction-soft": {"memory.available": "10%"},
        "eviction-soft-grace-period": {"memory.available": "1m"},
        "eviction-max-pod-grace-period": 60,
        "image-gc-high-threshold-percent": "85",
        "image-gc-low-threshold-percent": "80",
        "cpu-cfs-quota-enforced": False,
        "cluster-dns-ip": ["10.0.0.10", "10.0.0.11"],
    }


USERS = """
[settings.host-containers.admin]
enabled = true
superpowered = 2026-01-02T03:04:05Z
[settings.kubernetes]
cluster-name = "theirs"
max-pods = 500
registry-qps = 7
[settings.kubernetes.node-labels]
theirs = "kept"
team = "theirs"
[settings.kubernetes.node-taints]
theirs = ["x:NoSchedule"]
[settings.kubernetes.kube-reserved]
memory = "9Gi"
[settings.autoscaling]
should-wait = true
"""


def test_the_users_settings_are_merged_and_ours_win() -> None:
    """LCH-33: labels one by one; taints and reservations, by which machines are planned, as a whole."""
    found = settings_of(
        user_data=USERS,
        max_pods=29,
        labels={"team": "ours"},
        taints=[("ours", "", "NoExecute")],
        kubelet={"kubeReserved": {"cpu": "100m"}},
    )
    kubernetes = found["kubernetes"]
    assert found["host-containers"] == tomllib.loads(USERS)["settings"]["host-containers"]
    assert found["autoscaling"] == {"should-wait": False}
    assert (kubernetes["cluster-name"], kubernetes["max-pods"]) == ("demo", 29)
    assert kubernetes["registry-qps"] == 7
    assert kubernetes["node-labels"] == {"theirs": "kept", "team": "ours"}
    assert kubernetes["node-taints"] == {"ours": [":NoExecute"]}
    assert kubernetes["kube-reserved"] == {"cpu": "100m"}


def test_what_we_do_not_set_stays_the_users() -> None:
    assert settings_of(user_data=USERS)["kubernetes"]["kube-reserved"] == {"memory": "9Gi"}


def test_local_disks_are_joined_at_boot() -> None:
    """EC-08 RAID0, beside the user's commands."""
    users = '[settings.bootstrap-commands.mine]\ncommands = [["true"]]\nmode = "once"\n'
    commands = settings_of(raid0_instance_store=True, user_data=users)["bootstrap-commands"]
    assert set(commands) == {"mine", "000-mount-instance-storage"}
    mount = commands["000-mount-instance-storage"]
    assert [line[:3] for line in mount["commands"]] == [
        ["apiclient", "ephemeral-storage", "init"],
        ["apiclient", "ephemeral-storage", "bind"],
    ]
    assert (mount["mode"], mount["essential"]) == ("always", True)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("#!/bin/sh\necho hello", "is not TOML.*line 2"),
        ("a = 1\na = 2", "is not TOML"),
        ("settings = 3", r"settings is a int; write it as a table, \[settings\]"),
        ("[settings]\nkubernetes = 'x'", r"settings\.kubernetes is a str"),
        ("[[settings.kubernetes.node-labels]]", r"node-labels is a list"),
        ("a = " + "[" * 7000, "too deeply"),
        ("a" + ".a" * 7000 + " = 1", "too deeply"),
        ("a = 0x" + "f" * 9000, "is not TOML"),
        ("a = " + "1" * 9000, "is not TOML"),
    ],
)
def test_what_is_no_settings_document_is_refused_with_the_place(text: str, named: str) -> None:
    with pytest.raises(InvalidObject, match=rf"spec\.userData: .*{named}"):
        render("Bottlerocket", bootstrap(user_data=text, labels={"a": "b"}))
