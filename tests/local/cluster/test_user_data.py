"""User data of the EKS AMIs: Amazon Linux 2 bootstrap calls and Amazon Linux 2023 NodeConfig."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
