"""The API server of the installation that a command addresses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random

from cli.kubectl.addresses import CONTEXT
from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError, NotFound, Unreachable
from shared.kube.client import Kube, Object
from shared.kube.raw_requests import server_time
from shared.kube.resources import Resource


def kubeconfig_of(variables: Mapping[str, str]) -> str:
    """The path of the kubeconfig. Raises ConfigurationError when no variable names it."""
    path = variables.get("KUBECONFIG")
    if not path:
        raise ConfigurationError(
            "KUBECONFIG is not set; run `dovetail up --detach`, or point KUBECONFIG at your cluster"
        )
    return path


async def listed(kube: Kube, resource: Resource) -> list[Object]:
    """The objects of a kind; none where the cluster does not have the kind, such as those of one generation."""
    try:
        return (await kube.list(resource)).items
    except NotFound:
        return []


def connected_to(
    variables: Mapping[str, str], *, command: str, impersonate: str = ""
) -> AbstractAsyncContextManager[Kube]:
    """A client of the cluster that the variables name. Raises ConfigurationError."""
    context = variables.get(CONTEXT, "")
    path = kubeconfig_of(variables)
    return connected(path, command=command, context=context, impersonate=impersonate)


@asynccontextmanager
async def answering(variables: Mapping[str, str], *, command: str) -> AsyncIterator[Kube]:
    """As ``connected_to``, for commands that can do nothing without an API server: they end within ten seconds at one
    that is frozen, instead of repeating each request for two minutes. Raises Unreachable also."""
    async with connected_to(variables, command=command) as kube:
        await must_answer(kube, kubeconfig_of(variables))
        yield kube


async def must_answer(kube: Kube, kubeconfig: str) -> None:
    """Raises Unreachable when the API server does not answer one short question within ten seconds."""
    try:
        await server_time(kube.connection)
    except Unreachable as error:
        raise Unreachable(
            f"{error.message}; nothing was changed. See whether `kubectl get --raw /readyz` answers with "
            f"{kubeconfig}, and run the command again"
        ) from error


@asynccontextmanager
async def connected(
    kubeconfig: str, *, command: str, context: str = "", impersonate: str = ""
) -> AsyncIterator[Kube]:
    """A client for the duration of one command. Raises ConfigurationError for an unusable kubeconfig."""
    kube = await Kube.connect(
        kubeconfig, clock=SystemClock(), random=Random(), user_agent=f"dovetail-{command}",
        context=context, impersonate=impersonate,
    )  # fmt: skip
    try:
        yield kube
    finally:
        await kube.close()
