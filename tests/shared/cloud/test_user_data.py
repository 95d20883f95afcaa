"""User data parses back to what went in, whatever it holds (LCH-30..32, LCH-36..38)."""

from __future__ import annotations

import shlex
from email import message_from_string
from email.message import Message
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shared.cloud.user_data import (
    Bootstrap,
    al2_user_data,
    al2023_user_data,
    boot_taints,
    kubelet_flags,
    kubelet_labels,
)
from shared.errors import InvalidObject

HOSTILE = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40)
SCRIPTS = st.text(st.sampled_from("ab\n\r-/ $'\"é")).filter(
    lambda text: bool(text.strip()) and not text.endswith(("\n", "\r"))
)
PLAIN = Bootstrap(cluster_name="demo", endpoint="https://demo.example", ca_bundle="Q0E=")


def parts(text: str) -> list[Message]:
    return [part for part in message_from_string(text).walk() if not part.is_multipart()]


def bootstrap_command(text: str) -> list[str]:
    """The words of the last part's bootstrap.sh call, as a shell reads them."""
    script = str(parts(text)[-1].get_payload())
    return shlex.split(script[script.index("/etc/eks/bootstrap.sh") :])


def kubelet_arguments(text: str) -> list[str]:
    command = bootstrap_command(text)
    return shlex.split(command[command.index("--kubelet-extra-args") + 1])


def bootstrap(**changes: Any) -> Bootstrap:
    return Bootstrap(**({**PLAIN.__dict__} | changes))


def test_al2_runs_bootstrap_sh_with_labels_taints_and_pods() -> None:
    """LCH-30."""
    text = al2_user_data(
        bootstrap(
            dns_ip="10.100.0.10",
            labels={"team": "a", "karpenter.sh/capacity-type": "spot"},
            taints=[("dedicated", "gpu", "NoSchedule"), ("boot", "", "NoExecute")],
            max_pods=58,
        )
    )
    assert text.startswith(
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n--//\n'
    )
    assert "/var/log/user-data.log" in text
    command = bootstrap_command(text)
    assert command[:8] == [
        "/etc/eks/bootstrap.sh", "demo", "--apiserver-endpoint", "https://demo.example",
        "--b64-cluster-ca", "Q0E=", "--dns-cluster-ip", "10.100.0.10",
    ]  # fmt: skip
    assert command[8:10] == ["--use-max-pods", "false"]
    assert kubelet_arguments(text) == [
        "--node-labels=karpenter.sh/capacity-type=spot,team=a",
        "--register-with-taints=dedicated=gpu:NoSchedule,boot=:NoExecute",
        "--max-pods=58",
    ]


def test_kubelet_settings_become_flags() -> None:
    flags = dict(
        kubelet_flags(
            bootstrap(
                kubelet={
                    "podsPerCore": 4,
                    "kubeReserved": {"memory": "1Gi", "cpu": "100m"},
                    "evictionHard": {"memory.available": "5%"},
                    "evictionSoftGracePeriod": {"memory.available": "1m"},
                    "imageGCHighThresholdPercent": 85,
                    "cpuCFSQuota": False,
                }
            )
        )
    )
    assert flags == {
        "pods-per-core": "4",
        "kube-reserved": "cpu=100m,memory=1Gi",
        "eviction-hard": "memory.available<5%",
        "eviction-soft-grace-period": "memory.available=1m",
        "image-gc-high-threshold": "85",
        "cpu-cfs-quota": "false",
    }


@given(name=HOSTILE, endpoint=HOSTILE, label=HOSTILE, taint=HOSTILE)
def test_hostile_values_stay_single_words_on_al2(
    name: str, endpoint: str, label: str, taint: str
) -> None:
    text = al2_user_data(
        bootstrap(
            cluster_name=name, endpoint=endpoint, labels={"k": label}, taints=[("t", taint, "E")]
        )
    )
    script = text[text.index("/etc/eks/bootstrap.sh") : text.rindex("\n\n--")]
    command = shlex.split(script)
    assert command[1:4] == [name, "--apiserver-endpoint", endpoint]
    arguments = shlex.split(command[command.index("--kubelet-extra-args") + 1])
    assert arguments == [f"--node-labels=k={label}", f"--register-with-taints=t={taint}:E"]


@given(name=HOSTILE, endpoint=HOSTILE, label=HOSTILE, taint=HOSTILE)
def test_hostile_values_stay_values_on_al2023(
    name: str, endpoint: str, label: str, taint: str
) -> None:
    """LCH-32."""
    text = al2023_user_data(
        bootstrap(
            cluster_name=name, endpoint=endpoint, labels={"k": label}, taints=[("t", taint, "E")]
        )
    )
    spec = yaml.safe_load(str(parts(text)[-1].get_payload()))["spec"]
    assert (spec["cluster"]["name"], spec["cluster"]["apiServerEndpoint"]) == (name, endpoint)
    assert spec["kubelet"]["flags"] == [f"--node-labels=k={label}"]
    assert spec["kubelet"]["config"]["registerWithTaints"][0]["value"] == taint


@given(script=SCRIPTS)
def test_a_users_script_is_the_first_part_verbatim(script: str) -> None:
    """LCH-31, also when it holds the usual boundary."""
    found = parts(al2_user_data(bootstrap(user_data="#!/bin/sh\n--//\nFrom x\n" + script)))
    assert len(found) == 2
    assert found[0].get_content_type() == "text/x-shellscript"
    assert found[0].get_payload() == "#!/bin/sh\n--//\nFrom x\n" + script


def test_a_users_mime_document_is_taken_apart_and_ours_comes_last() -> None:
    """LCH-30: later parts win."""
    user = (
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="XX"\n\n'
        "--XX\nContent-Type: text/cloud-config\n\npackages: [jq]\n"
        '--XX\nContent-Type: text/x-shellscript; charset="us-ascii"\n\necho one\n--XX--\n'
    )
    found = parts(al2_user_data(bootstrap(user_data=user)))
    types = [part.get_content_type() for part in found]
    assert types == ["text/cloud-config", "text/x-shellscript", "text/x-shellscript"]
    assert "packages: [jq]" in str(found[0].get_payload())
    assert "bootstrap.sh" in str(found[2].get_payload())


def test_a_broken_mime_document_is_refused() -> None:
    with pytest.raises(InvalidObject, match=r"spec\.userData"):
        al2_user_data(bootstrap(user_data="MIME-Version: 1.0\n\nno parts"))


def test_al2023_writes_a_node_config() -> None:
    """LCH-32."""
    text = al2023_user_data(
        bootstrap(
            dns_ip="10.100.0.10",
            service_cidr="10.100.0.0/16",
            labels={"a": "b"},
            taints=[("t", "", "NoExecute")],
            max_pods=29,
            kubelet={"podsPerCore": 2, "clusterDNS": ["10.9.0.10"], "maxPods": None},
            raid0_instance_store=True,
            user_data="apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n",
        )
    )
    found = parts(text)
    assert [part.get_content_type() for part in found] == ["application/node.eks.aws"] * 2
    assert yaml.safe_load(str(found[1].get_payload())) == {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": "demo",
                "apiServerEndpoint": "https://demo.example",
                "certificateAuthority": "Q0E=",
                "cidr": "10.100.0.0/16",
            },
            "kubelet": {
                "config": {
                    "podsPerCore": 2,
                    "clusterDNS": ["10.9.0.10"],
                    "maxPods": 29,
                    "registerWithTaints": [{"key": "t", "effect": "NoExecute"}],
                },
                "flags": ["--node-labels=a=b"],
            },
            "instance": {"localStorage": {"strategy": "RAID0"}},
        },
    }


def test_more_than_16_kib_is_refused() -> None:
    """LCH-36."""
    with pytest.raises(InvalidObject, match="16384"):
        al2_user_data(bootstrap(user_data="#!/bin/sh\n" + "x" * 16384))


def test_labels_a_kubelet_may_not_set_are_left_to_the_controller() -> None:
    """LCH-37."""
    allowed = {
        "team": "a",
        "example.com/x": "1",
        "karpenter.sh/capacity-type": "spot",
        "node.kubernetes.io/instance-type": "m5.large",
        "my.node.kubernetes.io/x": "1",
        "topology.kubernetes.io/zone": "a",
        "kubernetes.io/arch": "amd64",
    }
    refused = {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "x", "k8s.io/y": "z"}
    assert kubelet_labels(allowed | refused) == dict(sorted(allowed.items()))


def test_machines_boot_with_the_unregistered_taint() -> None:
    """LCH-38."""
    one = ("a", "b", "NoSchedule")
    assert boot_taints([one], [one]) == (one, ("karpenter.sh/unregistered", "", "NoExecute"))
