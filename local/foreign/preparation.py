"""Installs Dovetail on an existing cluster: definitions, ServiceAccounts with their rights, and a token for each.

Existing objects that no stack created are not changed. Raises Unreachable when the server does not answer. Raises
ConfigurationError, before anything is created, when the user is no administrator, the cluster looks like a production
cluster of a cloud, or another autoscaler runs there.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from local.foreign.guard import sign_in_kubeconfig, sign_in_nodes
from local.foreign.kubeconfig import KubeContext, read_context, write_private
from local.foreign.objects import (
    DIRECTORY,
    LABEL,
    SERVICE_ACCOUNTS,
    Object,
    stack_objects,
)
from local.stack_plan import (
    ACCOUNTS,
    CONSOLE,
    EXISTING_CLUSTER_FILE,
    KUBELETS,
    NAMESPACE,
    SERVICES,
    stack_id,
)
from shared.concurrency.clock import SystemClock
from shared.errors import (
    AlreadyExists,
    ConfigurationError,
    NotFound,
    TransientError,
    Unauthorized,
)
from shared.kube.client import Kube
from shared.kube.resources import MACHINES, NAMESPACES, NODE_CLAIMS, NODES, Resource

TOKEN_SECONDS = 30 * 86_400
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False
)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
Progress = Callable[[str], None]


@asynccontextmanager
async def connected(kubeconfig: Path, context: KubeContext) -> AsyncIterator[Kube]:
    """A client for the context during the block. Its errors become ConfigurationError, which names the fix."""
    kube = await Kube.connect(
        str(kubeconfig),
        clock=SystemClock(),
        random=random.Random(),
        user_agent="dovetail-local-stack",
    )
    try:
        yield kube
    except TransientError as error:
        raise ConfigurationError(
            f"--kubeconfig: the cluster of context {context.name!r} at {context.server} gave no "
            f"usable answer: {error.message}; start it, or choose another context"
        ) from error
    except Unauthorized as error:
        raise ConfigurationError(
            f"--kubeconfig: context {context.name!r}: {error.message}; use the kubeconfig of an administrator"
        ) from error
    finally:
        await kube.close()


async def prepare(
    source: Path, directory: Path, *, accept_any: bool, progress: Progress = lambda _text: None
) -> KubeContext:
    """Create everything on the cluster of ``source`` and write the kubeconfigs into ``directory``.

    ``accept_any``: accept clusters that look like production clusters of a cloud. Raises ConfigurationError.
    """
    context = read_context(source)
    if not accept_any:
        _refuse(context, sign_in_kubeconfig(context))
    async with connected(source, context) as kube:
        progress(f"waiting for {context.server}")
        await kube.version()
        await _check(kube, context, directory, accept_any=accept_any)
        # Before anything is created: `dovetail down` finds the cluster to clean up by this file.
        write_private(directory / EXISTING_CLUSTER_FILE, context.document())
        write_private(directory / "kubeconfig", context.document())
        kept = [
            f"{resource.kind} {document['metadata']['name']}"
            for resource, document in stack_objects(directory)
            if not await _put(kube, resource, document, stack_id(directory))
        ]
        if kept:
            progress(f"already exists and is not changed: {', '.join(kept)}")
        for account in (*(f"dovetail-{service}" for service in (*SERVICES, CONSOLE)), KUBELETS):
            user = {"token": await _token(kube, account)}
            path = directory / ACCOUNTS / NAMESPACE / account
            write_private(path, context.document(user, NAMESPACE))
    return context


def _refuse(context: KubeContext, sign: str) -> None:
    if sign:
        raise ConfigurationError(
            f"--kubeconfig: context {context.name!r} looks like a production cluster of a cloud: {sign}. The stack "
            "would create simulated nodes on it; choose a test cluster, or pass --yes-this-cluster"
        )


async def _check(kube: Kube, context: KubeContext, directory: Path, *, accept_any: bool) -> None:
    await _require_administrator(kube, context)
    nodes = (await kube.list(NODES)).items
    if not accept_any:
        _refuse(context, sign_in_nodes(n for n in nodes if LABEL not in _labels(n)))
    namespace = await _find(kube, NAMESPACES, NAMESPACE)
    await _refuse_others(kube, context, namespace, stack_id(directory))


async def _require_administrator(kube: Kube, context: KubeContext) -> None:
    everything = {"verb": "*", "group": "*", "resource": "*"}
    review = {"metadata": {}, "spec": {"resourceAttributes": everything}}
    answer = await kube.create(ACCESS_REVIEWS, review)
    if not (answer.get("status") or {}).get("allowed"):
        raise ConfigurationError(
            f"--kubeconfig: the user of context {context.name!r} is no administrator of its cluster and cannot "
            "grant the services their rights; use the kubeconfig of an administrator (cluster-admin)"
        )


async def _refuse_others(
    kube: Kube, context: KubeContext, namespace: Object | None, own: str
) -> None:
    """Refuse clusters with another autoscaler: both would delete each other's nodes."""
    place = f"--kubeconfig: on the cluster of context {context.name!r}"
    owner = _labels(namespace).get(LABEL)
    if namespace is not None and namespace["metadata"].get("deletionTimestamp"):
        raise ConfigurationError(
            f"{place} the namespace {NAMESPACE} is still being deleted; try again when the deletion is complete"
        )
    if namespace is not None and owner and owner != own:
        where = (namespace["metadata"].get("annotations") or {}).get(DIRECTORY, "another directory")
        raise ConfigurationError(
            f"{place} the stack of {where} is installed; stop it with `dovetail down --directory {where}`, or, if that "
            "directory no longer exists, remove its objects with `dovetail down --kubeconfig FILE`"
        )
    if owner == own:
        return  # Objects that this stack left behind when it was killed.
    if namespace is not None and (await kube.list(DEPLOYMENTS, NAMESPACE)).items:
        raise ConfigurationError(
            f"{place} Dovetail is deployed in the namespace {NAMESPACE}; choose another cluster"
        )
    for kind in (MACHINES, NODE_CLAIMS):
        if await kube.serves(kind) and (found := (await kube.list(kind)).items):
            raise ConfigurationError(
                f"{place} another autoscaler runs (it has {len(found)} {kind.qualified}); choose another cluster"
            )


async def _put(kube: Kube, resource: Resource, document: Object, own: str) -> bool:
    """Create the object, or update it when this stack created it. Returns False for another owner's object, which is
    not changed.
    """
    try:
        await kube.create(resource, document)
        return True
    except AlreadyExists:
        metadata = document["metadata"]
    found = await kube.get(resource, metadata["name"], metadata.get("namespace"))
    if _labels(found).get(LABEL) != own:
        return False
    version = found["metadata"]["resourceVersion"]
    renewed = {**document, "metadata": {**metadata, "resourceVersion": version}}
    await kube.replace(resource, renewed)
    return True


async def _token(kube: Kube, account: str) -> str:
    token_request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    answer = await kube.create(
        SERVICE_ACCOUNTS, token_request, NAMESPACE, owner=account, subresource="token"
    )
    return str(answer["status"]["token"])


async def _find(kube: Kube, resource: Resource, name: str) -> Object | None:
    try:
        return await kube.get(resource, name)
    except NotFound:
        return None


def _labels(obj: Object | None) -> dict[str, Any]:
    return {} if obj is None else obj["metadata"].get("labels") or {}
