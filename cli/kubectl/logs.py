"""``kubectl dovetail logs``: what the pods of one service have logged, all replicas side by side.

Errors: no such service, no pod of it, no right to ``pods/log``. A pod that ends while it is followed ends its part.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated

import typer

from cli.kubectl import names
from cli.kubectl.addresses import NAMESPACE, SERVICES, SYSTEM_NAMESPACE
from cli.stack.cluster import connected_to
from shared.concurrency.tasks import TaskGroup
from shared.errors import ConfigurationError, DovetailError, NotFound
from shared.kube.client import Kube, Object
from shared.kube.raw_requests import pod_log
from shared.kube.resources import PODS

TAIL_LIMIT = 1_000_000
MOST_PODS = 10


def logs(
    service: Annotated[
        str, typer.Argument(help="A service, for example scheduler.", autocompletion=names.services)
    ],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new lines until Ctrl-C.")
    ] = False,
    tail: Annotated[
        int, typer.Option(min=0, max=TAIL_LIMIT, help="Number of last lines of each pod.")
    ] = 100,
) -> None:
    """Print the last lines of the log of each pod of a service.

    Where a service has several pods, each line begins with the name of its pod.

    Examples:

      kubectl dovetail logs scheduler

      kubectl dovetail logs launcher --follow --tail 0
    """
    if service not in SERVICES:
        raise ConfigurationError(f"{service} is not a service; they are {', '.join(SERVICES)}")
    try:
        asyncio.run(_print_logs(service, tail, follow=follow))
    except KeyboardInterrupt:  # the normal end of --follow
        return


async def _print_logs(service: str, tail: int, *, follow: bool) -> None:
    namespace = os.environ.get(SYSTEM_NAMESPACE) or NAMESPACE
    async with connected_to(os.environ, command="logs") as kube:
        pods = await _pods_of(kube, service, namespace)
        several = len(pods) > 1
        async with TaskGroup() as group:
            for name in pods:
                prefix = f"{name}: " if several else ""
                group.create_task(_print_one(kube, namespace, name, prefix, tail, follow))


async def _pods_of(kube: Kube, service: str, namespace: str) -> list[str]:
    selector = f"app.kubernetes.io/name=dovetail,app.kubernetes.io/component={service}"
    found: list[Object] = (await kube.list(PODS, namespace, label_selector=selector)).items
    if not found:
        raise NotFound(
            f"no pod of {service} is in the namespace {namespace}; "
            "--namespace before the command names another one"
        )
    return [pod["metadata"]["name"] for pod in found[:MOST_PODS]]


async def _print_one(
    kube: Kube, namespace: str, name: str, prefix: str, tail: int, follow: bool
) -> None:
    """Whole lines, so that those of several pods do not mix."""
    rest = b""
    try:
        async for chunk in pod_log(kube.connection, name, namespace, tail=tail, follow=follow):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                os.write(1, prefix.encode() + line + b"\n")
    except DovetailError as error:
        print(f"{prefix}{error.message}", file=sys.stderr)
    if rest:
        os.write(1, prefix.encode() + rest + b"\n")
