"""Windows (LCH-34)."""

from __future__ import annotations

import shlex

import pytest

from shared.cloud.user_data.rendering import render, written
from shared.errors import InvalidObject
from tests.support.aws.boot_data import bootstrap, flags_of, powershell_arguments

FAMILIES = ("Windows2019", "Windows2022", "Windows2025")


@pytest.mark.parametrize("family", FAMILIES)
def test_ekss_script_gets_labels_taints_and_pods(family: str) -> None:
    """LCH-34: boot data of Windows; IT-14: pods of Windows nodes."""
    text = render(
        family,
        bootstrap(
            labels={"a": "b"},
            taints=[("os", "windows", "NoSchedule")],
            max_pods=110,
            cluster_dns="10.100.0.10",
            kubelet={"kubeReserved": {"cpu": "100m"}},
        ),
    )
    first, path, _call, last = text.split("\n")
    assert (first, last) == ("<powershell>", "</powershell>")
    assert path.endswith(r'"$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"')
    found = powershell_arguments(text)
    flags = flags_of(shlex.split(found.pop("KubeletExtraArgs")))
    assert found == {
        "EKSClusterName": "demo",
        "APIServerEndpoint": "https://demo.example",
        "Base64ClusterCA": "Q0E=",
        "DNSClusterIP": "10.100.0.10",
    }
    assert flags == {
        "node-labels": "a=b",
        "register-with-taints": "os=windows:NoSchedule",
        "max-pods": "110",
        "kube-reserved": "cpu=100m",
    }


@pytest.mark.parametrize(
    "users",
    ["Write-Host 'hi'\n$x = 1", "<powershell>\nWrite-Host 'hi'\n$x = 1\n</powershell>\n",
     "<PowerShell>Write-Host 'hi'\n$x = 1</PowerShell>"],
)  # fmt: skip
def test_the_users_lines_come_first_with_or_without_tags(users: str) -> None:
    """LCH-34: boot data of Windows."""
    text = render("Windows2022", bootstrap(user_data=users))
    assert text.startswith("<powershell>\nWrite-Host 'hi'\n$x = 1\n[string]$EKSBootstrapScriptFile")


@pytest.mark.parametrize(
    "users",
    ["</powershell>", "a\n</POWERSHELL >\nb", "<powershell>a</powershell>\n<powershell>b", "<powershell>"],
)  # fmt: skip
def test_a_tag_inside_the_script_is_refused(users: str) -> None:
    """It would end the script before the node joins."""
    with pytest.raises(InvalidObject, match=r"spec\.userData: .*the PowerShell lines alone"):
        render("Windows2022", bootstrap(user_data=users))


def test_a_tag_inside_a_value_is_refused() -> None:
    with pytest.raises(InvalidObject, match="</powershell>"):
        render("Windows2022", bootstrap(labels={"a": "</powershell>"}))


def test_typographic_quotes_are_quotes() -> None:
    """PowerShell ends a string at any of them."""
    text = written("Windows2022", bootstrap(cluster_name="it\u2019s; Remove-Item x"))
    assert "-EKSClusterName 'it\u2019\u2019s; Remove-Item x'" in text
