"""An AWS account with an EKS cluster in which nothing is installed yet: the emulator, the embedded cluster, and two
nodes of a managed node group whose kubelet runs the pods of a release (``tests.support.processes.kubelet``).
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from local.stack_plan import HOST, StackPlan, StackSettings, choose_ports, plan_stack
from tests.support.processes.kubelet import Kubelet
from tests.support.processes.kubelet_api import KubeletApi
from tests.support.processes.pod_identity import PodIdentity
from tests.support.processes.supervised import supervised

OF_A_STACK = ("CRD_DIRECTORY", "ACCOUNTS_DIRECTORY", "ACCOUNT_KUBECONFIGS", "SERVICE_URLS")
"""What a local stack's cluster begins with, and a cluster of EKS does not."""
FOR_A_READER = (
    "KUBECONFIG",
    "AWS_ENDPOINT_URL",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_DEFAULT_REGION",  # version 1 of the AWS CLI does not read AWS_REGION
)
READY_SECONDS, BOOT_SECONDS = 1.0, 5.0


@dataclass(frozen=True)
class Account:
    """``environment``: what the shell of an administrator has; region and cluster are for the page to name."""

    environment: dict[str, str]
    kubelet: Kubelet


@contextlib.contextmanager
def account(directory: Path, cluster_name: str, region: str) -> Iterator[Account]:
    """It is there during the block."""
    settings = StackSettings(
        directory, cluster_name=cluster_name, region=region, services=(),
        boot_seconds=BOOT_SECONDS, ready_seconds=READY_SECONDS,
    )  # fmt: skip
    ports = choose_ports(settings, random.Random())
    plan = plan_stack(settings, ports)
    (_, aws), (cluster,) = plan.waves
    own = {name: value for name, value in cluster.environment.items() if name not in OF_A_STACK}
    aws = replace(aws, environment={**aws.environment, "MOTO_IAM_LOAD_MANAGED_POLICIES": "true"})
    cluster = replace(cluster, environment={**own, "FIXED_NODES": "0"})
    pods = directory / "pods"
    pods.mkdir(parents=True)
    identity = PodIdentity(plan.environment["AWS_ENDPOINT_URL"], region, cluster_name)
    kubelet = Kubelet(KubeletApi(f"http://{HOST}:{ports[2]}"), pods, identity, region)
    with supervised(StackPlan(((aws,), (cluster,)), plan.environment), directory):
        kubelet.start()
        try:
            yield Account({name: plan.environment[name] for name in FOR_A_READER}, kubelet)
        finally:
            kubelet.stop()
