"""The installation that a command addresses: the stack of a directory, or the one that the shell's variables name.

When no stack runs in a directory that the command line names, the command is refused: the variables may name another
cluster, and the command would query or halt the wrong one. Both have the variables of ``.dovetail/env``. When one is
missing, the error names it and the two ways to set it. ``kubectl dovetail`` addresses the cluster of the kubeconfig
alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cli.kubectl.addresses import CONTEXT, IN_CLUSTER
from local.stack import Stack
from shared.errors import ConfigurationError

_URL_PREFIX, _URL_SUFFIX = "DOVETAIL_", "_URL"


def _refuse_idle(context: typer.Context, directory: Path) -> Path:
    source = context.get_parameter_source("directory")
    named = source is not None and source.name == "COMMANDLINE"
    if named and IN_CLUSTER in os.environ:
        raise ConfigurationError(
            "kubectl dovetail addresses the cluster of the kubeconfig; for the stack of a directory: dovetail"
        )
    if named and running_in(directory) is None:
        raise ConfigurationError(
            f"no stack runs in {directory}; start one with `dovetail up --detach --directory {directory}`, or "
            "omit --directory to use the installation that the variables of this shell name"
        )
    return directory


StackOption = Annotated[
    Path,
    typer.Option(
        envvar="DOVETAIL_DIRECTORY",
        help="Directory of a running stack. Without a stack the variables of this shell are used.",
        callback=_refuse_idle,
    ),
]


def running_in(directory: Path) -> Mapping[str, str] | None:
    """The addresses of the stack that runs in ``directory``; None when none does."""
    state = Stack(directory).state()
    return state.environment if state is not None and state.supervisor.alive() else None


def command_for(directory: Path, words: str) -> str:
    """The command that does ``words`` to the installation which ``variables_of`` finds, for people to copy."""
    if IN_CLUSTER in os.environ:
        return f"kubectl dovetail {words}"
    return f"dovetail {words}" if running_in(directory) is None else Stack(directory).command(words)


def variables_of(directory: Path) -> Mapping[str, str]:
    """The variables of the stack that runs in ``directory``, otherwise the shell's."""
    if IN_CLUSTER in os.environ:
        return os.environ
    running = running_in(directory)
    return os.environ if running is None else running


@dataclass(frozen=True)
class Environment:
    """Addresses of one Dovetail installation. ``services`` maps names to status URLs."""

    kubeconfig: str
    redis_url: str
    aws_endpoint_url: str
    cluster_name: str
    services: dict[str, str]
    context: str = ""
    """A context of the kubeconfig; empty: its current one."""


def from_variables(variables: Mapping[str, str]) -> Environment:
    """Raises ConfigurationError naming every missing variable. In a cluster the kubeconfig is enough."""
    needed = ["KUBECONFIG"]
    if IN_CLUSTER not in variables:
        needed += ["REDIS_URL", "AWS_ENDPOINT_URL", "CLUSTER_NAME"]
    if missing := [name for name in needed if not variables.get(name)]:
        raise ConfigurationError(
            f"{', '.join(missing)} not set; run `dovetail up --detach` "
            "(or source the .dovetail/env of a running stack)"
        )
    services = {
        name.removeprefix(_URL_PREFIX).removesuffix(_URL_SUFFIX).lower(): url
        for name, url in variables.items()
        if name.startswith(_URL_PREFIX) and name.endswith(_URL_SUFFIX)
    }
    return Environment(
        kubeconfig=variables["KUBECONFIG"],
        redis_url=variables.get("REDIS_URL", ""),
        aws_endpoint_url=variables.get("AWS_ENDPOINT_URL", ""),
        cluster_name=variables.get("CLUSTER_NAME", ""),
        services=services,
        context=variables.get(CONTEXT, ""),
    )
