"""Amazon Linux 2 and Ubuntu (LCH-30, LCH-31), P-20."""

from __future__ import annotations

import pytest

from shared.cloud.user_data.rendering import render
from tests.support.aws.boot_data import bootstrap, bootstrap_command, extra_words, flags_of


@pytest.mark.parametrize("family", ["AL2", "Ubuntu"])
def test_bootstrap_sh_gets_labels_taints_and_pods(family: str) -> None:
    """LCH-30: boot data of AL2; ACC-24: kubelet settings in the boot data."""
    text = render(
        family,
        bootstrap(
            cluster_dns="10.100.0.10",
            labels={"team": "a", "karpenter.sh/capacity-type": "spot"},
            taints=[("dedicated", "gpu", "NoSchedule"), ("boot", "", "NoExecute")],
            max_pods=58,
            kubelet={"containerRuntime": "containerd", "evictionMaxPodGracePeriod": 60},
        ),
    )
    assert "/var/log/user-data.log" in text
    command = bootstrap_command(text)
    assert command[:-2] == [
        "/etc/eks/bootstrap.sh", "demo", "--apiserver-endpoint", "https://demo.example",
        "--b64-cluster-ca", "Q0E=", "--dns-cluster-ip", "10.100.0.10",
        "--container-runtime", "containerd", "--use-max-pods", "false",
    ]  # fmt: skip
    assert extra_words(command) == [
        "--node-labels=karpenter.sh/capacity-type=spot,team=a",
        "--register-with-taints=dedicated=gpu:NoSchedule,boot=:NoExecute",
        "--max-pods=58",
        "--eviction-max-pod-grace-period=60",
    ]


def test_local_disks_are_joined_for_the_pods_that_were_planned_with_them() -> None:
    """EC-08 RAID0, LCH-30, IT-15."""
    command = bootstrap_command(render("AL2", bootstrap(raid0_instance_store=True)))
    assert command[command.index("--local-disks") + 1] == "raid0"
    assert "--local-disks" not in bootstrap_command(render("AL2", bootstrap()))


@pytest.mark.parametrize(
    "changes", [{"service_cidr": "fd30:1::/108"}, {"cluster_dns": "fd30:1::a"}]
)
def test_a_node_of_an_ipv6_cluster_is_told_the_family(changes: dict[str, str]) -> None:
    """LCH-30, LCH-40: by its services, or by its DNS where nothing else is known."""
    command = bootstrap_command(render("AL2", bootstrap(**changes)))
    assert command[command.index("--ip-family") + 1] == "ipv6"
    if "cluster_dns" in changes:
        assert command[command.index("--dns-cluster-ip") + 1] == "fd30:1::a"
    four = bootstrap(service_cidr="10.100.0.0/16", cluster_dns="10.100.0.10")
    assert "--ip-family" not in bootstrap_command(render("AL2", four))


def test_the_command_line_is_karpenters() -> None:
    """LCH-30: plain values stand as they are in seed 002."""
    text = render("AL2", bootstrap(labels={"a": "b"}, max_pods=29))
    assert """--kubelet-extra-args '--node-labels="a=b" --max-pods="29"'""" in text


def test_kubelet_settings_become_flags() -> None:
    """P-20..P-23, EC-10: kubelet settings."""
    kubelet = {
        "podsPerCore": 4,
        "systemReserved": {"cpu": "100m"},
        "kubeReserved": {"memory": "1Gi", "cpu": "100m"},
        "evictionHard": {"memory.available": "5%"},
        "evictionSoft": {"memory.available": "10%"},
        "evictionSoftGracePeriod": {"memory.available": "1m"},
        "evictionMaxPodGracePeriod": 0,
        "imageGCHighThresholdPercent": 85,
        "imageGCLowThresholdPercent": 80,
        "cpuCFSQuota": False,
        "maxPods": 5,
        "clusterDNS": None,
    }
    text = render("AL2", bootstrap(kubelet=kubelet, max_pods=5))
    assert flags_of(extra_words(bootstrap_command(text))) == {
        "max-pods": "5",
        "pods-per-core": "4",
        "system-reserved": "cpu=100m",
        "kube-reserved": "cpu=100m,memory=1Gi",
        "eviction-hard": "memory.available<5%",
        "eviction-soft": "memory.available<10%",
        "eviction-soft-grace-period": "memory.available=1m",
        "eviction-max-pod-grace-period": "0",
        "image-gc-high-threshold": "85",
        "image-gc-low-threshold": "80",
        "cpu-cfs-quota": "false",
    }


def test_of_several_dns_addresses_the_first_is_taken() -> None:
    """LCH-30: bootstrap.sh knows one."""
    text = render("AL2", bootstrap(kubelet={"clusterDNS": ["10.0.0.10", "10.0.0.11"]}))
    command = bootstrap_command(text)
    assert command[command.index("--dns-cluster-ip") + 1] == "10.0.0.10"
