"""``dovetail halt`` and ``dovetail resume``: the kill switch of voluntary disruption, as an annotation on pools.

What may go wrong: a pool that is made after the halt is not halted; the setting DISRUPTION=off holds all pools whatever
their annotations say, so ``resume`` tells when it is on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from rich.console import Console

from cli.operations.scheduler_status import VARIABLE, ask
from cli.stack.running_stack import StackOption, variables_of
from local.stack import DEFAULT_DIRECTORY
from shared.concurrency.clock import SystemClock
from shared.domain import labels
from shared.errors import ConfigurationError, DovetailError, NotFound
from shared.kube.client import Kube
from shared.kube.resources import NODE_POOLS, PROVISIONERS, Resource

OFF = "off"
_KINDS = {
    "nodepool": NODE_POOLS,
    "nodepools": NODE_POOLS,
    "provisioner": PROVISIONERS,
    "provisioners": PROVISIONERS,
}

PoolOption = Annotated[
    list[str] | None,
    typer.Option("--pool", help="KIND/NAME such as NodePool/default; repeatable. Default: all."),
]
AllOption = Annotated[bool, typer.Option("--all", help="Every NodePool and every Provisioner.")]


def halt(
    pool: PoolOption = None,
    all_pools: AllOption = False,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Stop taking machines away by choice: emptiness, consolidation, drift and expiration.

    Sets the annotation dovetail.sh/disruption: "off" on pools, all of them unless --pool names some. The scheduler
    heeds it within seconds. What it has begun and not yet deleted is taken back: nodes open again, replacements that
    are not ready go. What goes on: spot interruptions and other news from EC2, machines that are already being
    deleted, kubectl delete, and new machines for pods that wait. A pool made later is not halted.

    To stop everything at once, pools made later included: DISRUPTION=off on the scheduler, or the key disruption: "off"
    in the ConfigMap karpenter-global-settings, which is heeded within 15 seconds.

    Exit code 1: no such pool, or none at all; then nothing is changed.

    Examples:

      dovetail halt

      dovetail halt --pool NodePool/default --pool Provisioner/batch

      dovetail resume
    """
    names = _switch(pool, all_pools, directory, off=True)
    _say(f"halted: {', '.join(names)} (cluster of {variables_of(directory)['KUBECONFIG']})")
    _say("Interruptions, deletions already ordered and new machines for waiting pods go on.")
    _say(f"Undo it with: dovetail resume{_words(pool)}")


def resume(
    pool: PoolOption = None,
    all_pools: AllOption = False,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Take `dovetail halt` back: machines may be taken away by choice again.

    Removes the annotation dovetail.sh/disruption from pools, all of them unless --pool names some. What expired,
    drifted or became empty meanwhile goes within each pool's budgets.

    Exit code 1: no such pool, or none at all; then nothing is changed.

    Examples:

      dovetail resume

      dovetail resume --pool NodePool/default
    """
    names = _switch(pool, all_pools, directory, off=False)
    _say(f"resumed: {', '.join(names)} (cluster of {variables_of(directory)['KUBECONFIG']})")
    if _is_off(variables_of(directory)):
        Console(stderr=True).print(
            "But the setting DISRUPTION=off still holds all pools: set it to on, or take the key disruption out "
            "of the ConfigMap karpenter-global-settings.",
            style="yellow", markup=False, soft_wrap=True,
        )  # fmt: skip


def _switch(pool: list[str] | None, all_pools: bool, directory: Path, *, off: bool) -> list[str]:
    """Annotate; the keys of the pools. Raises ConfigurationError for a choice that means nothing."""
    if pool and all_pools:
        raise ConfigurationError("--pool and --all contradict each other; give one")
    wanted = [_parsed(text) for text in pool or ()]
    kubeconfig = variables_of(directory).get("KUBECONFIG", "")
    if not kubeconfig:
        raise ConfigurationError(
            "KUBECONFIG is not set; run `dovetail up --detach`, or point KUBECONFIG at your cluster"
        )
    return asyncio.run(_annotate(kubeconfig, wanted, OFF if off else None))


def _parsed(text: str) -> tuple[Resource, str]:
    kind, _, name = text.partition("/")
    resource = _KINDS.get(kind.lower())
    if resource is None or not name:
        raise ConfigurationError(
            f"--pool {text}: must be KIND/NAME, such as NodePool/default or Provisioner/default"
        )
    return resource, name


async def _annotate(
    kubeconfig: str, wanted: list[tuple[Resource, str]], value: str | None
) -> list[str]:
    kube = await Kube.connect(
        kubeconfig, clock=SystemClock(), random=Random(), user_agent="dovetail-halt"
    )
    try:
        pools = await _pools(kube)
        chosen = wanted or pools
        if missing := [one for one in chosen if one not in pools]:
            raise _no_such(missing, pools)
        if not chosen:
            raise ConfigurationError("there is no NodePool and no Provisioner: nothing to switch")
        change = {"metadata": {"annotations": {labels.DISRUPTION_ANNOTATION: value}}}
        for resource, name in chosen:
            await kube.patch(resource, name, change)
    finally:
        await kube.close()
    return [f"{resource.kind}/{name}" for resource, name in chosen]


async def _pools(kube: Kube) -> list[tuple[Resource, str]]:
    """Of both generations; a cluster may have the CRDs of one only."""
    found = []
    for resource in (NODE_POOLS, PROVISIONERS):
        try:
            listed = await kube.list(resource)
        except NotFound:
            continue
        found += [(resource, raw["metadata"]["name"]) for raw in listed.items]
    return found


def _no_such(
    missing: list[tuple[Resource, str]], pools: list[tuple[Resource, str]]
) -> ConfigurationError:
    absent = ", ".join(f"{resource.kind}/{name}" for resource, name in missing)
    known = ", ".join(f"{resource.kind}/{name}" for resource, name in pools) or "none"
    return ConfigurationError(f"there is no {absent}; pools are: {known}. Nothing was changed")


def _is_off(variables: Mapping[str, str]) -> bool:
    """Does the scheduler say that its setting holds everything? Not known counts as no."""
    url = variables.get(VARIABLE)
    if not url:
        return False
    try:
        status: Any = ask(f"{url.rstrip('/')}/status")
        return bool(status["disruption"]["offBySetting"])
    except (DovetailError, KeyError, TypeError):
        return False


def _words(pool: list[str] | None) -> str:
    return "".join(f" --pool {one}" for one in pool or ())


def _say(text: str) -> None:
    Console().print(text, highlight=False, markup=False, soft_wrap=True)
