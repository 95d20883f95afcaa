"""Settings of the local cluster: one environment variable each, with the field's name in upper case.

``python -m local.cluster --help`` prints this table. Durations are in seconds. An invalid value stops the start with
pydantic's message, which names the variable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from local.cluster.addons.catalogue import ADDONS, USUAL


class ClusterSettings(BaseSettings):
    """Settings of ``run_cluster``."""

    model_config = SettingsConfigDict(extra="ignore", env_ignore_empty=True)

    cluster_host: str = Field(default="127.0.0.1", description="address the API server listens on")
    cluster_port: int = Field(default=0, ge=0, le=65535, description="port; 0 chooses a free one")
    kubeconfig_out: Path | None = Field(default=None, description="where to write a kubeconfig")
    cluster_advertise_url: str | None = Field(
        default=None, description="server URL in the kubeconfig; without it host and port"
    )
    cluster_name: str = Field(
        default="dovetail-local", description="instances tagged kubernetes.io/cluster/<this> join"
    )
    aws_region: str = Field(default="us-west-2", description="region of the fixed nodes")
    aws_endpoint_url: str | None = Field(
        default=None, description="the AWS emulator; without it no instance joins"
    )
    crd_directory: Path | None = Field(
        default=None, description="folder; objects in its *.yaml files are created at start"
    )
    accounts_directory: Path | None = Field(
        default=None,
        description="namespaces, ServiceAccounts, roles and bindings in *.yaml files of this folder "
        "are created at start",
    )
    further_rights_directory: Path | None = Field(
        default=None, description="folder; roles and bindings for these accounts in addition"
    )
    account_kubeconfigs: Path | None = Field(
        default=None,
        description="where to write a kubeconfig for each of these ServiceAccounts, as NAMESPACE/NAME",
    )
    service_urls: str = Field(
        default="",
        description="Services that are programs outside the cluster, with commas: NAMESPACE/NAME=http://HOST:PORT",
    )
    scheduler_strategy: Literal["least-allocated", "most-allocated"] = Field(
        default="least-allocated",
        description="how the scheduler scores nodes by their free resources",
    )
    scheduler_writes_per_second: float = Field(
        default=0.0,
        ge=0,
        description="rate of the scheduler's writes (bindings and conditions); the burst is twice as large; "
        "kube-scheduler's default is 50; 0: unlimited",
    )
    kubelet_poll_seconds: float = Field(
        default=0.25, gt=0, description="pause between two polls of the instances"
    )
    boot_seconds: float = Field(default=20.0, ge=0, description="from launch to the Node object")
    ready_seconds: float = Field(default=3.0, ge=0, description="from the Node object to Ready")
    node_monitor_grace_seconds: float = Field(
        default=5.0, ge=0, description="from an instance's end to Ready=Unknown on its Node"
    )
    pod_start_seconds: float = Field(default=0.3, ge=0, description="from binding to Running")
    pod_stop_seconds: float = Field(
        default=0.2,
        ge=0,
        description="longest a container takes to stop; its grace period also limits it",
    )
    fixed_nodes: int = Field(
        default=1, ge=0, le=1000, description="m5.large nodes that exist at start"
    )
    addons: str = Field(
        default=USUAL,
        description=f"EKS add-ons on every node, with commas: {', '.join(ADDONS)}; or all, or none",
    )
    dra_drivers: str = Field(
        default="",
        description="drivers that publish the devices of nodes as ResourceSlices, with commas: gpu.nvidia.com, "
        "neuron.aws.com, dra.net",
    )
    dra_driver_seconds: float = Field(
        default=2.0, ge=0, description="from a node's being ready to its ResourceSlices"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="lowest level that is logged"
    )


def describe_settings() -> str:
    """One line per variable: name, default, meaning."""
    rows = [
        (name.upper(), "" if field.default is None else str(field.default), field.description or "")
        for name, field in ClusterSettings.model_fields.items()
    ]
    return "\n".join(f"  {name:<28} {default:<18} {text}" for name, default, text in rows)
