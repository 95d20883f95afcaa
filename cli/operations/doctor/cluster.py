"""The cluster: does it answer, is its version supported, and are our kinds installed as we have them?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from cli.operations.doctor.finding import Finding, Installation, failed, ok
from cli.operations.doctor.manifests import manifests
from shared.errors import NotFound
from shared.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES

OLDEST, NEWEST = (1, 26), (1, 36)
"""Kubernetes versions (EC-23)."""
Json = Any


async def cluster(installation: Installation) -> AsyncIterator[Finding]:
    """Version and namespace."""
    version = await installation.kube.version()
    yield version_finding(str(version.get("major")), str(version.get("minor")))
    place = installation.namespace
    try:
        found = await installation.kube.get(NAMESPACES, place)
        yield namespace_finding(found)
    except NotFound:
        mend = "kubectl apply -k deploy, or name the namespace: DOVETAIL_NAMESPACE"
        yield failed(f"namespace {place}", "it does not exist", mend)


def namespace_finding(raw: Json) -> Finding:
    """A namespace that is being deleted takes the services with it."""
    check = f"namespace {raw['metadata']['name']}"
    if raw["metadata"].get("deletionTimestamp"):
        return failed(check, "it is being deleted", "when it is gone: kubectl apply -k deploy")
    return ok(check)


def version_finding(major: str, minor: str) -> Finding:
    """``minor`` may end in a sign, as on EKS: 31+."""
    numbers = tuple(int("".join(filter(str.isdigit, part)) or 0) for part in (major, minor))
    name = f"{numbers[0]}.{numbers[1]}"
    if OLDEST <= numbers <= NEWEST:
        return ok("Kubernetes version", name)
    span = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    return failed(
        "Kubernetes version", f"{name} is not supported: {span} are", "upgrade the cluster"
    )


async def definitions(installation: Installation) -> AsyncIterator[Finding]:
    """One finding per file of deploy/crds."""
    for path, ours in manifests("crds"):
        name, mend = (
            ours["metadata"]["name"],
            f"kubectl apply --server-side -f deploy/crds/{path.name}",
        )
        try:
            theirs = await installation.kube.get(CUSTOM_RESOURCE_DEFINITIONS, name)
        except NotFound:
            yield failed(f"CRD {name}", "it is not installed", mend)
            continue
        problem = definition_problem(ours, theirs)
        versions = ", ".join(version["name"] for version in theirs["spec"]["versions"])
        yield failed(f"CRD {name}", problem, mend) if problem else ok(f"CRD {name}", versions)


def definition_problem(ours: Json, theirs: Json) -> str:
    """Why the installed definition does not do; empty when it is as ours. Further versions of it do no harm."""
    conditions = (theirs.get("status") or {}).get("conditions") or []
    for one in conditions:
        if one["type"] == "Established" and one["status"] != "True":
            return f"it is not established: {one.get('message', '')}"
    installed = {version["name"]: version for version in theirs["spec"]["versions"]}
    for version in ours["spec"]["versions"]:
        name = version["name"]
        if name not in installed or not installed[name].get("served"):
            return f"the version {name} is not served"
        found = next(_differences(version["schema"], installed[name].get("schema"), name), "")
        if found:
            return f"its schema is another one at {found}"
    return ""


def _differences(ours: Json, theirs: Json, path: str) -> Iterator[str]:
    """Paths at which two schemas differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            yield from _differences(ours.get(key), theirs.get(key), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif ours != theirs:
        yield path
