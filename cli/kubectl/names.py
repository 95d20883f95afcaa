"""Names for shell completion: pools, nodes and pods of the cluster, services, streams, contexts.

The cluster has two seconds; whatever fails is no completion, since an error text in the middle of a command line helps
nobody. At most 500 objects of a kind are read, and their metadata only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.kubectl.addresses import SERVICES
from shared.errors import DovetailError, NotFound

if TYPE_CHECKING:
    from shared.kube.client import Kube
    from shared.kube.resources import Resource

LIMIT_SECONDS = 2.0
MOST_NAMES = 500


def pools(incomplete: str) -> list[str]:
    """``NodePool/default``, of both generations."""
    from shared.kube.resources import NODE_POOLS, PROVISIONERS

    return _starting(incomplete, _objects((NODE_POOLS, PROVISIONERS), _kind_and_name))


def nodes(incomplete: str) -> list[str]:
    """The nodes' names."""
    from shared.kube.resources import NODES

    return _starting(incomplete, _objects((NODES,), lambda _kind, one: str(one["name"])))


def pods(incomplete: str) -> list[str]:
    """``NAMESPACE/NAME``."""
    from shared.kube.resources import PODS

    found = _objects((PODS,), lambda _kind, one: f"{one.get('namespace')}/{one['name']}")
    return _starting(incomplete, found)


def services(incomplete: str) -> list[str]:
    """The services of Dovetail, which run in every cluster."""
    return _starting(incomplete, SERVICES)


def streams(incomplete: str) -> list[str]:
    """The streams of Redis."""
    from shared.redis.streams import GROUPS

    return _starting(incomplete, list(GROUPS))


def contexts(incomplete: str) -> list[str]:
    """The contexts of the kubeconfig."""
    from cli.kubectl.addresses import cluster_variables

    found: list[str] = []
    for path in cluster_variables(os.environ)["KUBECONFIG"].split(os.pathsep):
        found += _contexts_of(Path(path))
    return _starting(incomplete, found)


def _contexts_of(path: Path) -> list[str]:
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
        return [str(one["name"]) for one in document["contexts"]]
    except (OSError, ValueError, yaml.YAMLError, TypeError, KeyError, RecursionError):
        return []


def _starting(incomplete: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _kind_and_name(kind: str, metadata: Mapping[str, Any]) -> str:
    return f"{kind}/{metadata['name']}"


def _objects(
    resources: Sequence[Resource], name: Callable[[str, Mapping[str, Any]], str]
) -> list[str]:
    """The names of all objects, sorted; none when the cluster does not answer in time."""
    try:
        return sorted(asyncio.run(_read(resources, name)))
    except (DovetailError, OSError, TimeoutError, KeyError):
        return []


async def _read(
    resources: Sequence[Resource], name: Callable[[str, Mapping[str, Any]], str]
) -> list[str]:
    from cli.stack.cluster import connected_to
    from cli.stack.environment import variables_of
    from local.stack import DEFAULT_DIRECTORY

    variables = variables_of(Path(os.environ.get("DOVETAIL_DIRECTORY") or DEFAULT_DIRECTORY))
    found: list[str] = []
    async with (
        asyncio.timeout(LIMIT_SECONDS),
        connected_to(variables, command="completion") as kube,
    ):
        for resource in resources:
            found += [name(resource.kind, one) for one in await _first_page(kube, resource)]
    return found


async def _first_page(kube: Kube, resource: Resource) -> list[Mapping[str, Any]]:
    try:
        async for page in kube.pages(resource, page_size=MOST_NAMES, metadata_only=True):
            return [one["metadata"] for one in page.items]
    except NotFound:
        pass  # the cluster has the kinds of the other generation
    return []
