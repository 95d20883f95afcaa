"""What a node class may say, and with which no node would join."""

from typing import Any

import pytest

from shared.api.registry import check, warnings

TERMS = [{"tags": {"a": "b"}}]
BROKEN = "[settings.kubernetes\nmax-pods = 9\n"


def node_class(version: str = "v1", **spec: Any) -> dict[str, Any]:
    usual = {"role": "nodes", "subnetSelectorTerms": TERMS, "securityGroupSelectorTerms": TERMS}
    return {
        "apiVersion": f"karpenter.k8s.aws/{version}",
        "kind": "EC2NodeClass",
        "metadata": {"name": "a"},
        "spec": {**usual, "amiSelectorTerms": [{"alias": "al2023@latest"}], **spec},
    }


def template(**spec: Any) -> dict[str, Any]:
    selectors = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}
    return {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": "a"},
        "spec": {**selectors, **spec},
    }


def warned(document: dict[str, Any]) -> list[str]:
    assert check(document) == []
    return [str(one) for one in warnings(document)]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_an_arn_as_role_is_a_warning_with_the_name(version: str) -> None:
    arn = "arn:aws-cn:iam::123456789012:role/path/to/nodes"
    document = node_class(version, role=arn)
    if version == "v1beta1":
        document["spec"] |= {"amiFamily": "AL2023", "amiSelectorTerms": None}
    assert warned(document) == [
        "spec.role: is an ARN, but must be the name of the role; write nodes"
    ]


@pytest.mark.parametrize(
    "document",
    [
        node_class(amiSelectorTerms=[{"alias": "bottlerocket@latest"}], userData=BROKEN),
        node_class(
            amiFamily="Bottlerocket", amiSelectorTerms=[{"id": "ami-1"}], userData="#!/bin/sh\nls"
        ),
        template(amiFamily="Bottlerocket", userData=BROKEN),
    ],
)
def test_user_data_of_bottlerocket_that_is_no_toml_is_a_warning(document: dict[str, Any]) -> None:
    [text] = warned(document)
    assert text.startswith("spec.userData: is not TOML, which Bottlerocket needs: ")


@pytest.mark.parametrize(
    "document",
    [
        node_class(userData=BROKEN),
        node_class(
            amiFamily="Custom", amiSelectorTerms=[{"alias": "bottlerocket@latest"}], userData=BROKEN
        ),
        node_class(
            amiSelectorTerms=[{"alias": "bottlerocket@latest"}], userData="[settings.motd]\n"
        ),
        template(userData=BROKEN),
    ],
)
def test_other_user_data_is_not_judged(document: dict[str, Any]) -> None:
    assert warned(document) == []
