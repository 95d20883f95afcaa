"""``dovetail up``: start the local stack and keep it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from local.stack import DEFAULT_DIRECTORY, ExistingCluster, Stack, StackSettings
from shared.errors import ConfigurationError

DirectoryOption = Annotated[
    Path, typer.Option(envvar="DOVETAIL_DIRECTORY", help="State, logs and env file of the stack.")
]


def up(
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when all is ready; `dovetail down` stops it.")
    ] = False,
    one_process: Annotated[
        bool, typer.Option("--one-process", help="All services in one process (small machines).")
    ] = False,
    boot_seconds: Annotated[
        float, typer.Option(min=0, max=600, help="From an instance's launch to its Node.")
    ] = StackSettings.boot_seconds,
    ready_seconds: Annotated[
        float, typer.Option(min=0, max=600, help="From the Node to Ready.")
    ] = StackSettings.ready_seconds,
    cluster_name: Annotated[
        str, typer.Option(envvar="CLUSTER_NAME", help="Name of the cluster.")
    ] = StackSettings.cluster_name,
    addons: Annotated[
        str, typer.Option(help="EKS add-ons on every node, with commas; or all, or none.")
    ] = StackSettings.addons,
    port_base: Annotated[
        int | None, typer.Option(help="First of eight ports in a row; free ones when absent.")
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="A test cluster that runs already (kind, k3s, kwok, envtest): its current context "
            "takes the place of the stack's own cluster. Needs an administrator."
        ),
    ] = None,
    yes_this_cluster: Annotated[
        bool, typer.Option("--yes-this-cluster", help="Also when it looks like a cloud's.")
    ] = False,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
) -> None:
    """Start Redis, the AWS emulator, a Kubernetes cluster and Dovetail's services on this machine.

    Writes .dovetail/env for shells. With --kubeconfig the machines of the emulator become nodes of that
    cluster. Without --detach it stays in front and Ctrl-C stops everything.

    Examples:

      dovetail up --detach && source .dovetail/env

      dovetail up --addons vpc-cni,kube-proxy,aws-ebs-csi-driver

      kubectl apply -f cli/demo/manifests && kubectl scale deployment inflate --replicas 10

      dovetail up --kubeconfig ~/.kube/config    # its current context: a kind cluster, say

      dovetail down
    """
    console = Console()
    stack = Stack(directory)
    settings = StackSettings(
        directory=stack.directory,
        cluster_name=cluster_name,
        port_base=port_base,
        one_process=one_process,
        boot_seconds=boot_seconds,
        ready_seconds=ready_seconds,
        cluster=_joined(kubeconfig, yes_this_cluster),
        addons=addons,
    )
    state = stack.start(
        settings,
        detach=detach,
        progress=lambda message: console.print(message, style="dim", highlight=False),
    )
    for name, value in state.environment.items():
        console.print(f"{name}={value}", highlight=False, soft_wrap=True)
    console.print(f"\nReady. source {stack.environment_file}", highlight=False, soft_wrap=True)
    if detach:
        console.print(f"Stop it with: {stack.command('down')}", highlight=False, soft_wrap=True)
        return
    console.print("Stop it with Ctrl-C", highlight=False)
    try:
        stack.wait()
    except KeyboardInterrupt:
        console.print("stopping", style="dim")
    finally:
        stack.stop(lambda message: console.print(message, highlight=False, soft_wrap=True))


def _joined(kubeconfig: Path | None, accept_any: bool) -> ExistingCluster | None:
    if kubeconfig is None:
        if accept_any:
            raise ConfigurationError("--yes-this-cluster says something of --kubeconfig alone")
        return None
    return ExistingCluster(str(kubeconfig.resolve()), accept_any)
