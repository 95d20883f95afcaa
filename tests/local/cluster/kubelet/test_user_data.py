"""User data of the EKS AMIs: Amazon Linux 2 bootstrap calls and Amazon Linux 2023 NodeConfig."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.cluster.kubelet.gpu_sharing import GpuSharing, gpu_resources
from local.cluster.kubelet.instances import Accelerator
from local.cluster.kubelet.user_data import KubeletConfiguration, parse_taint, parse_user_data


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


NODE_CONFIG = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: dovetail-local
  kubelet:
    config:
      maxPods: 58
      registerWithTaints:
      - key: team
        value: a
        effect: NoExecute
    flags:
    - --node-labels=karpenter.sh/capacity-type=spot,team=a

--BOUNDARY--
"""


def test_node_config_of_amazon_linux_2023() -> None:
    assert parse_user_data(encoded(NODE_CONFIG)) == KubeletConfiguration(
        labels={"karpenter.sh/capacity-type": "spot", "team": "a"},
        taints=[{"key": "team", "value": "a", "effect": "NoExecute"}],
        max_pods=58,
        cluster="dovetail-local",
    )


def test_bootstrap_call_of_amazon_linux_2() -> None:
    script = (
        "#!/bin/bash\n# /etc/eks/bootstrap.sh 'comment'\n"
        "/etc/eks/bootstrap.sh 'mine' --use-max-pods false "
        "--kubelet-extra-args '--node-labels=a=b,c= --register-with-taints=x:NoSchedule "
        "--max-pods=17'\n"
    )
    assert parse_user_data(encoded(script)) == KubeletConfiguration(
        labels={"a": "b", "c": ""},
        taints=[{"key": "x", "effect": "NoSchedule"}],
        max_pods=17,
        cluster="mine",
    )


@pytest.mark.parametrize("text", [None, "", encoded("#!/bin/sh\necho hello\n")])
def test_nothing_to_read_is_an_empty_configuration(text: str | None) -> None:
    assert parse_user_data(text) == KubeletConfiguration()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("%%%", "not base64"),
        (encoded("kind: NodeConfig\n  bad: ["), "not YAML"),
        (encoded("kind: NodeConfig\nspec: " + "[" * 3000 + "]" * 3000), "not YAML"),
        (encoded("kind: NodeConfig\nspec: 5"), "wrong type"),
        (encoded("kind: NodeConfig\nspec: {kubelet: {flags: 5}}"), "wrong type"),
        (encoded("kind: NodeConfig\nspec: {kubelet: {config: {maxPods: many}}}"), "wrong type"),
        (encoded("/etc/eks/bootstrap.sh 'open"), "not shell syntax"),
        (encoded("/etc/eks/bootstrap.sh c --kubelet-extra-args '--max-pods=x'"), "not a number"),
    ],
)
def test_unreadable_user_data_names_the_problem(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_user_data(text)


WORDS = st.from_regex(r"[a-z][a-z0-9./-]{0,20}[a-z0-9]", fullmatch=True)


@given(st.dictionaries(WORDS, WORDS, max_size=8))
def test_labels_come_back_as_written(labels: dict[str, str]) -> None:
    flags = ",".join(f"{key}={value}" for key, value in labels.items())
    script = f"/etc/eks/bootstrap.sh 'c' --kubelet-extra-args '--node-labels=\"{flags}\"'"
    assert parse_user_data(encoded(script)).labels == labels


@given(WORDS, st.one_of(st.none(), WORDS), st.sampled_from(["NoSchedule", "NoExecute"]))
def test_taints_come_back_as_written(key: str, value: str | None, effect: str) -> None:
    text = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
    taint = parse_taint(text)
    assert (taint["key"], taint.get("value"), taint["effect"]) == (key, value, effect)


def sharing(*lines: str) -> GpuSharing:
    nvidia = "settings.kubelet-device-plugins.nvidia"
    head = [f"[{nvidia}]", lines[0], f"[{nvidia}.time-slicing]", *lines[1:]]
    return parse_user_data(encoded("\n".join(head))).gpu_sharing


def test_gpus_are_time_sliced_as_bottlerockets_settings_require() -> None:
    sliced = 'device-sharing-strategy = "time-slicing"'
    assert sharing(sliced, "replicas = 4", "rename-by-default = false") == GpuSharing(4)
    assert sharing(sliced) == GpuSharing(2, renamed=True)
    assert sharing('device-sharing-strategy = "none"', "replicas = 4") == GpuSharing()
    with pytest.raises(ValueError, match=r"time-slicing\.replicas: 0 is no whole number above 0"):
        sharing(sliced, "replicas = 0")
    with pytest.raises(ValueError, match=r"settings\.kubelet-device-plugins: 3 is no table"):
        parse_user_data(encoded("[settings]\nkubelet-device-plugins = 3"))


def test_only_gpus_of_the_plugin_are_shared_and_renamed() -> None:
    gpus = [Accelerator(count=2), Accelerator(manufacturer="AMD", count=1), Accelerator()]
    assert gpu_resources(gpus, GpuSharing()) == {"nvidia.com/gpu": "2", "amd.com/gpu": "1"}
    assert gpu_resources(gpus, GpuSharing(4, renamed=True)) == {
        "nvidia.com/gpu.shared": "8",
        "amd.com/gpu": "1",
    }
