"""Puts Dovetail on a running cluster: definitions, ServiceAccounts with their rights, and a token for each.

What is there already and was not made by a stack is left as it is. What may go wrong: the server does not answer
(Unreachable), the user is no administrator, the cluster looks like a cloud's, or something works there already
(ConfigurationError; nothing was created then).
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from local.foreign.guard import sign_in_kubeconfig, sign_in_nodes
from local.foreign.kubeconfig import Picked, pick, write_private
from local.foreign.objects import (
    DIRECTORY,
    LABEL,
    SERVICE_ACCOUNTS,
    Object,
    wanted,
)
from local.stack_plan import ACCOUNTS, JOINED, KUBELETS, NAMESPACE, SERVICES, stack_id
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
async def connected(kubeconfig: Path, picked: Picked) -> AsyncIterator[Kube]:
    """A client by the kubeconfig, for the time of the block; what it cannot do is told with the fix."""
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
            f"--kubeconfig: the cluster of context {picked.context!r} at {picked.server} does not answer as it "
            f"should: {error.message}; start it, or choose another context"
        ) from error
    except Unauthorized as error:
        raise ConfigurationError(
            f"--kubeconfig: context {picked.context!r}: {error.message}; take a kubeconfig of an administrator"
        ) from error
    finally:
        await kube.close()


async def prepare(
    source: Path, directory: Path, *, accept_any: bool, progress: Progress = lambda _text: None
) -> Picked:
    """Put everything on the cluster of ``source`` and write the kubeconfigs into ``directory``.

    ``accept_any``: also on what looks like a cluster of a cloud. Raises ConfigurationError.
    """
    picked = pick(source)
    if not accept_any:
        _refuse(picked, sign_in_kubeconfig(picked))
    async with connected(source, picked) as kube:
        progress(f"waiting for {picked.server}")
        await kube.version()
        await _check(kube, picked, directory, accept_any=accept_any)
        # Before anything is created: whoever stops the stack finds by it where to clean up.
        write_private(directory / JOINED, picked.document())
        write_private(directory / "kubeconfig", picked.document())
        kept = [
            f"{resource.kind} {document['metadata']['name']}"
            for resource, document in wanted(directory)
            if not await _put(kube, resource, document, stack_id(directory))
        ]
        if kept:
            progress(f"was there and stays as it is: {', '.join(kept)}")
        for account in (*(f"dovetail-{service}" for service in SERVICES), KUBELETS):
            user = {"token": await _token(kube, account)}
            path = directory / ACCOUNTS / NAMESPACE / account
            write_private(path, picked.document(user, NAMESPACE))
    return picked


def _refuse(picked: Picked, sign: str) -> None:
    if sign:
        raise ConfigurationError(
            f"--kubeconfig: context {picked.context!r} looks like a real cluster of a cloud: {sign}. The stack would "
            "put nodes on it that do not exist; choose a test cluster, or say --yes-this-cluster"
        )


async def _check(kube: Kube, picked: Picked, directory: Path, *, accept_any: bool) -> None:
    await _require_administrator(kube, picked)
    nodes = (await kube.list(NODES)).items
    if not accept_any:
        _refuse(picked, sign_in_nodes(n for n in nodes if LABEL not in _labels(n)))
    namespace = await _find(kube, NAMESPACES, NAMESPACE)
    await _refuse_others(kube, picked, namespace, stack_id(directory))


async def _require_administrator(kube: Kube, picked: Picked) -> None:
    everything = {"verb": "*", "group": "*", "resource": "*"}
    asked = {"metadata": {}, "spec": {"resourceAttributes": everything}}
    answer = await kube.create(ACCESS_REVIEWS, asked)
    if not (answer.get("status") or {}).get("allowed"):
        raise ConfigurationError(
            f"--kubeconfig: the user of context {picked.context!r} may not do everything on its cluster, and so can "
            "give the services no rights; take a kubeconfig of an administrator (cluster-admin)"
        )


async def _refuse_others(kube: Kube, picked: Picked, namespace: Object | None, own: str) -> None:
    """Two autoscalers would take each other's nodes away."""
    place = f"--kubeconfig: on the cluster of context {picked.context!r}"
    owner = _labels(namespace).get(LABEL)
    if namespace is not None and namespace["metadata"].get("deletionTimestamp"):
        raise ConfigurationError(
            f"{place} the namespace {NAMESPACE} is still being deleted; try again when it is gone"
        )
    if namespace is not None and owner and owner != own:
        where = (namespace["metadata"].get("annotations") or {}).get(DIRECTORY, "another directory")
        raise ConfigurationError(
            f"{place} the stack of {where} runs; stop it with `dovetail down --directory {where}`, or, if that "
            "directory is gone, take away what it left with `dovetail down --kubeconfig FILE`"
        )
    if owner == own:
        return  # what this stack left when it was killed
    if namespace is not None and (await kube.list(DEPLOYMENTS, NAMESPACE)).items:
        raise ConfigurationError(
            f"{place} Dovetail is deployed in the namespace {NAMESPACE}; take another cluster"
        )
    for kind in (MACHINES, NODE_CLAIMS):
        if await kube.serves(kind) and (found := (await kube.list(kind)).items):
            raise ConfigurationError(
                f"{place} another autoscaler works: it has {len(found)} {kind.qualified}; take another cluster"
            )


async def _put(kube: Kube, resource: Resource, document: Object, own: str) -> bool:
    """Create it, or renew what this stack made. False: it is somebody else's, and stays."""
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
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    answer = await kube.create(
        SERVICE_ACCOUNTS, asked, NAMESPACE, owner=account, subresource="token"
    )
    return str(answer["status"]["token"])


async def _find(kube: Kube, resource: Resource, name: str) -> Object | None:
    try:
        return await kube.get(resource, name)
    except NotFound:
        return None


def _labels(obj: Object | None) -> dict[str, Any]:
    return {} if obj is None else obj["metadata"].get("labels") or {}
