"""``dovetail halt`` and ``dovetail resume``: switch voluntary disruption off and on by an annotation on pools.

A pool that is created after the halt is not halted. The setting DISRUPTION=off overrides the annotations of all pools,
so ``resume`` warns when it is set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console

from cli.kubectl import names
from cli.operations.scheduler_status import VARIABLE, ask
from cli.printing import print_line
from cli.stack.cluster import answering, listed
from cli.stack.environment import StackOption, command_for, variables_of
from local.stack import DEFAULT_DIRECTORY
from shared.domain import labels
from shared.errors import ConfigurationError, DovetailError
from shared.kube.client import Kube
from shared.kube.resources import NODE_POOLS, PROVISIONERS, Resource

OFF = "off"
_KINDS = {"nodepool": NODE_POOLS, "provisioner": PROVISIONERS}

PoolOption = Annotated[
    list[str] | None,
    typer.Option(
        "--pool",
        help="KIND/NAME, for example NodePool/default; repeatable. Default: all.",
        autocompletion=names.pools,
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="Every NodePool and every Provisioner.")]


def halt(
    pool: PoolOption = None,
    all_pools: AllOption = False,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Stop voluntary disruption: emptiness, consolidation, drift and expiration.

    Sets the annotation dovetail.sh/disruption: "off" on all pools, or on those that --pool names. The scheduler applies
    it within seconds. Commands that have not deleted a node yet are cancelled: their nodes become schedulable again,
    and replacements that are not ready are deleted. Not stopped are: spot interruptions and other EC2 events, machines
    that are already being deleted, kubectl delete, and new machines for pending pods. A pool created later is not
    halted.

    To halt all pools, including those created later: set DISRUPTION=off on the scheduler, or the key disruption: "off"
    in the ConfigMap karpenter-global-settings, which is applied within 15 seconds.

    Exit code 1: a named pool does not exist, or there is no pool at all. Nothing is changed then.

    Examples:

      dovetail halt

      dovetail halt --pool NodePool/default --pool Provisioner/batch

      dovetail resume
    """
    variables = variables_of(directory)
    done = asyncio.run(_switch(pool, all_pools, variables, OFF))
    print_line(f"halted: {', '.join(done)} (cluster of {variables['KUBECONFIG']})")
    print_line("Interruptions, deletions already ordered and new machines for pending pods go on.")
    chosen = "".join(f" --pool {one}" for one in pool or ())
    print_line(f"Undo it with: {command_for(directory, f'resume{chosen}')}")


def resume(
    pool: PoolOption = None,
    all_pools: AllOption = False,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Undo `dovetail halt`: allow voluntary disruption again.

    Removes the annotation dovetail.sh/disruption from all pools, or from those that --pool names. Machines that
    expired, drifted or became empty meanwhile are removed within the budgets of their pool.

    Exit code 1: a named pool does not exist, or there is no pool at all. Nothing is changed then.

    Examples:

      dovetail resume

      dovetail resume --pool NodePool/default
    """
    variables = variables_of(directory)
    done = asyncio.run(_switch(pool, all_pools, variables, None))
    print_line(f"resumed: {', '.join(done)} (cluster of {variables['KUBECONFIG']})")
    if _is_off(variables):
        Console(stderr=True).print(
            "The setting DISRUPTION=off still halts all pools: set it to on, or remove the key disruption from "
            "the ConfigMap karpenter-global-settings.",
            style="yellow", markup=False, soft_wrap=True,
        )  # fmt: skip


async def _switch(
    pool: list[str] | None, all_pools: bool, variables: Mapping[str, str], value: str | None
) -> list[str]:
    """Set or remove the annotation; returns KIND/NAME of each pool. Raises ConfigurationError for a wrong choice."""
    if pool and all_pools:
        raise ConfigurationError("give --pool or --all, not both")
    named = list(dict.fromkeys(_parsed(text) for text in pool or ()))
    async with answering(variables, command="halt") as kube:
        pools = await _pools(kube)
        chosen = named or pools
        # Before the first write: a wrong name must not leave some pools halted and others not.
        if missing := [one for one in chosen if one not in pools]:
            raise _no_such(missing, pools)
        if not chosen:
            raise ConfigurationError("there is no NodePool and no Provisioner")
        change = {"metadata": {"annotations": {labels.DISRUPTION_ANNOTATION: value}}}
        for resource, name in chosen:
            await kube.patch(resource, name, change)
    return [f"{resource.kind}/{name}" for resource, name in chosen]


def _parsed(text: str) -> tuple[Resource, str]:
    kind, _, name = text.partition("/")
    resource = _KINDS.get(kind.lower().removesuffix("s"))
    if resource is None or not name:
        raise ConfigurationError(
            f"--pool {text}: must be KIND/NAME, such as NodePool/default or Provisioner/default"
        )
    return resource, name


async def _pools(kube: Kube) -> list[tuple[Resource, str]]:
    """The pools of both generations. A cluster may have the CRDs of only one generation."""
    return [
        (resource, raw["metadata"]["name"])
        for resource in (NODE_POOLS, PROVISIONERS)
        for raw in await listed(kube, resource)
    ]


def _no_such(
    missing: list[tuple[Resource, str]], pools: list[tuple[Resource, str]]
) -> ConfigurationError:
    absent = ", ".join(f"{resource.kind}/{name}" for resource, name in missing)
    known = ", ".join(f"{resource.kind}/{name}" for resource, name in pools) or "none"
    return ConfigurationError(f"there is no {absent}; pools are: {known}. Nothing was changed")


def _is_off(variables: Mapping[str, str]) -> bool:
    """Whether the scheduler reports DISRUPTION=off. False when it does not answer."""
    url = variables.get(VARIABLE)
    if not url:
        return False
    try:
        status: Any = ask(f"{url.rstrip('/')}/status")
        return bool(status["disruption"]["offBySetting"])
    except (DovetailError, KeyError, TypeError):
        return False
