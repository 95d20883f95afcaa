"""Which names of SSM parameters hold an image: releases that are out, under exactly their own names."""

from __future__ import annotations

import pytest

from local.aws.ec2.images import image_for

EKS = "/aws/service/eks/optimized-ami/1.32"
ROCKET = "/aws/service/bottlerocket/aws-k8s-1.32/x86_64"
AL2023 = f"{EKS}/amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.32"


@pytest.mark.parametrize(
    "parameter",
    [
        f"{ROCKET}/1.20.3/image_id",
        f"{ROCKET}/1.50.0/image_id",
        f"{ROCKET}/1.61.1/image_id",
        f"{AL2023}-v20240703/image_id",
        f"{AL2023}-v20260101/image_id",
        f"{AL2023}-v20261120/image_id",
        f"{EKS}/amazon-linux-2-gpu/amazon-eks-gpu-node-1.32-v20240703/image_id",
    ],
)
def test_a_release_that_is_out_has_an_image(parameter: str) -> None:
    assert image_for(parameter) is not None


@pytest.mark.parametrize(
    "parameter",
    [
        f"{ROCKET}/9.9.9/image_id",
        f"{ROCKET}/2.0.0/image_id",
        f"{ROCKET}/1.100.0/image_id",
        f"{ROCKET}/v1.20.3/image_id",
        f"{ROCKET}/1.020.3/image_id",
        f"{ROCKET}/0.5.0/image_id",
        "/aws/service/bottlerocket/aws-k8s-1.99/x86_64/latest/image_id",
        f"{AL2023}-v20290101/image_id",
        f"{AL2023}-v99991231/image_id",
        f"{AL2023}-v20241301/image_id",
        f"{AL2023}-v20200101/image_id",
        f"{EKS}/amazon-linux-2/amazon-eks-node-1.32-v20170101/image_id",
        # Parts of another image's name: another variant, architecture or version of Kubernetes.
        f"{EKS}/amazon-linux-2/amazon-eks-gpu-node-1.32-v20240703/image_id",
        f"{EKS}/amazon-linux-2/amazon-eks-node-1.31-v20240703/image_id",
        AL2023.replace("al2023-x86_64", "al2023-arm64") + "-v20240703/image_id",
        "/aws/service/eks/optimized-ami/1.99/amazon-linux-2023/x86_64/standard/recommended/image_id",
        "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.99/image_id",
        "/aws/service/canonical/ubuntu/eks/20.04/1.99/stable/current/amd64/hvm/ebs-gp2/ami-id",
    ],
)
def test_a_release_that_is_not_out_has_none(parameter: str) -> None:
    assert image_for(parameter) is None
