"""``dovetail up``: start the local stack and keep it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.printing import print_line
from local.stack import DEFAULT_DIRECTORY, ExistingCluster, Stack, StackSettings
from shared.errors import ConfigurationError

DirectoryOption = Annotated[
    Path, typer.Option(envvar="DOVETAIL_DIRECTORY", help="State, logs and env file of the stack.")
]
DetachOption = Annotated[
    bool, typer.Option("--detach", help="Return when all is ready; `dovetail down` stops it.")
]
OneProcessOption = Annotated[
    bool, typer.Option("--one-process", help="All services in one process (small machines).")
]
BootOption = Annotated[
    float, typer.Option(min=0, max=600, help="Seconds from an instance's launch to its Node.")
]
ReadyOption = Annotated[float, typer.Option(min=0, max=600, help="Seconds from the Node to Ready.")]
ClusterNameOption = Annotated[str, typer.Option(envvar="CLUSTER_NAME", help="Name of the cluster.")]
AddonsOption = Annotated[
    str, typer.Option(help="EKS add-ons on every node, separated by commas; or all, or none.")
]
PortBaseOption = Annotated[
    int | None, typer.Option(help="First of eight consecutive ports. Default: free ports.")
]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        help="An existing test cluster (kind, k3s, kwok, envtest): the current context of this file "
        "replaces the stack's own cluster. Needs an administrator."
    ),
]
AcceptClusterOption = Annotated[
    bool,
    typer.Option("--yes-this-cluster", help="Accept a cluster that looks like a cloud provider's."),
]


def up(
    detach: DetachOption = False,
    one_process: OneProcessOption = False,
    boot_seconds: BootOption = StackSettings.boot_seconds,
    ready_seconds: ReadyOption = StackSettings.ready_seconds,
    cluster_name: ClusterNameOption = StackSettings.cluster_name,
    addons: AddonsOption = StackSettings.addons,
    port_base: PortBaseOption = None,
    kubeconfig: KubeconfigOption = None,
    yes_this_cluster: AcceptClusterOption = False,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
) -> None:
    """Start Redis, the AWS emulator, a Kubernetes cluster and Dovetail's services on this machine.

    Writes .dovetail/env for shells. With --kubeconfig the emulator's instances become nodes of that cluster. Without
    --detach the command stays in the foreground and Ctrl-C stops everything.

    Examples:

      dovetail up --detach && source .dovetail/env

      dovetail up --addons vpc-cni,kube-proxy,aws-ebs-csi-driver

      kubectl apply -f cli/demo/manifests && kubectl scale deployment inflate --replicas 10

      dovetail up --kubeconfig ~/.kube/config    # its current context: a kind cluster, for example

      dovetail down
    """
    settings = StackSettings(
        directory=Stack(directory).directory, cluster_name=cluster_name, port_base=port_base,
        one_process=one_process, boot_seconds=boot_seconds, ready_seconds=ready_seconds,
        cluster=_joined(kubeconfig, yes_this_cluster), addons=addons, console=True,
    )  # fmt: skip
    _run(Stack(directory), settings, detach=detach)


def _run(stack: Stack, settings: StackSettings, *, detach: bool) -> None:
    """Start the stack and print its addresses. Without ``detach``: wait for Ctrl-C and stop it."""
    console = Console()

    state = stack.start(
        settings,
        detach=detach,
        progress=lambda message: console.print(message, style="dim", highlight=False),
    )
    for name, value in state.environment.items():
        print_line(f"{name}={value}")
    print_line(f"\nReady. source {stack.environment_file}")
    if detach:
        print_line(f"Stop it with: {stack.command('down')}")
        return
    print_line("Stop it with Ctrl-C")
    try:
        stack.wait()
    except KeyboardInterrupt:
        console.print("stopping", style="dim")
    finally:
        stack.stop(print_line)


def _joined(kubeconfig: Path | None, accept_any: bool) -> ExistingCluster | None:
    """The existing cluster that the stack joins; None: the stack runs its own cluster.

    Raises ConfigurationError for --yes-this-cluster without --kubeconfig.
    """
    if kubeconfig is None:
        if accept_any:
            raise ConfigurationError("--yes-this-cluster has an effect only with --kubeconfig")
        return None
    return ExistingCluster(os.path.realpath(kubeconfig), accept_any)
