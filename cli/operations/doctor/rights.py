"""Rights in Kubernetes: those of each service's ServiceAccount, reviewed as that account, and the caller's own.

The rules are those of deploy/kubernetes. A review changes nothing. To review as another account the caller must be
allowed to impersonate it; where that is refused, nothing is known of the account.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from cli.operations.doctor.finding import Finding, Installation, failed, not_checked, ok
from cli.operations.doctor.manifests import manifests
from cli.stack.cluster import connected_to
from shared.errors import Unauthorized
from shared.kube.client import Kube
from shared.kube.resources import SELF_SUBJECT_ACCESS_REVIEWS

AT_ONCE = 8
MOST_SHOWN = 3
DOVETAIL = "dovetail"
"""The namespace of deploy/kubernetes."""
ADMINISTRATOR = "run it with a context that may impersonate ServiceAccounts (an administrator's)"


@dataclass(frozen=True)
class Right:
    """One request that a rule allows: on a resource, or on ``path``."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""

    def spec(self) -> dict[str, Any]:
        """The spec of a SelfSubjectAccessReview."""
        if self.path:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        resource, _, subresource = self.resource.partition("/")
        fields = {
            "verb": self.verb, "group": self.group, "resource": resource, "subresource": subresource,
            "name": self.name, "namespace": self.namespace,
        }  # fmt: skip
        return {"resourceAttributes": {key: value for key, value in fields.items() if value}}

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        name = f" {self.name}" if self.name else ""
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.path or self.resource + group}{name}{place}"


@dataclass(frozen=True)
class Account:
    """A ServiceAccount of deploy/kubernetes and its rights."""

    name: str
    rights: tuple[Right, ...]


def accounts_of(namespace: str) -> list[Account]:
    """All accounts with rights, as they would be in ``namespace``."""
    documents = [document for _, document in manifests("kubernetes")]
    roles = {_key(one): one for one in documents if one["kind"] in ("Role", "ClusterRole")}
    rights: dict[str, list[Right]] = {}
    for binding in documents:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        place = binding["metadata"].get("namespace", "")
        role = roles.get((binding["roleRef"]["kind"], place, binding["roleRef"]["name"]))
        role = role or roles[("ClusterRole", "", binding["roleRef"]["name"])]
        granted = list(_rights(role, namespace if place == DOVETAIL else place))
        for subject in binding["subjects"]:
            if subject.get("namespace") == DOVETAIL:
                rights.setdefault(subject["name"], []).extend(granted)
    return [Account(name, tuple(found)) for name, found in rights.items()]


def _key(role: Any) -> tuple[str, str, str]:
    return role["kind"], role["metadata"].get("namespace", ""), role["metadata"]["name"]


def _rights(role: Any, namespace: str) -> Iterator[Right]:
    for rule in role["rules"]:
        for verb in rule["verbs"]:
            for path in rule.get("nonResourceURLs", ()):
                yield Right(verb, path=path)
            for group in rule.get("apiGroups", ()):
                for resource in rule.get("resources", ()):
                    for name in rule.get("resourceNames") or ("",):
                        yield Right(verb, group, resource, name, namespace)


async def accounts(installation: Installation) -> AsyncIterator[Finding]:
    """One finding per ServiceAccount."""
    place = installation.namespace
    for account in accounts_of(place):
        check = f"rights of {place}/{account.name}"
        user = f"system:serviceaccount:{place}:{account.name}"
        try:
            async with connected_to(
                installation.variables, command="doctor", impersonate=user
            ) as kube:
                missing = await _missing(kube, account.rights)
        except Unauthorized:
            yield not_checked(check, f"you may not impersonate {user}", ADMINISTRATOR)
            continue
        if not missing:
            yield ok(check, f"{len(account.rights)} rights")
            continue
        text = f"it may not: {_shown(missing)}"
        yield failed(check, text, "kubectl apply --server-side -k deploy")


def _shown(missing: list[Right]) -> str:
    more = f" and {len(missing) - MOST_SHOWN} more" if len(missing) > MOST_SHOWN else ""
    return "; ".join(map(str, missing[:MOST_SHOWN])) + more


async def _missing(kube: Kube, rights: tuple[Right, ...]) -> list[Right]:
    places = asyncio.Semaphore(AT_ONCE)

    async def allowed(right: Right) -> bool:
        async with places:
            review = await kube.create(SELF_SUBJECT_ACCESS_REVIEWS, {"spec": right.spec()})
        return bool((review.get("status") or {}).get("allowed"))

    answers = await asyncio.gather(*map(allowed, rights))
    return [right for right, yes in zip(rights, answers, strict=True) if not yes]


OWN = {
    "see nodes and pods (status)": (
        Right("list", resource="nodes"),
        Right("list", resource="pods"),
    ),
    "halt disruption (halt)": (Right("patch", "karpenter.sh", "nodepools"),),
}


async def own(installation: Installation) -> AsyncIterator[Finding]:
    """What the caller may do; of Services only where commands go through the API server."""
    wanted = dict(OWN)
    if any(url.startswith("service://") for url in installation.services.values()):
        place, services = installation.namespace, "services/proxy"
        names = [f"dovetail-{name}:status" for name in installation.services]
        rights = tuple(Right("get", "", services, name, place) for name in names)
        wanted["reach the services (services/proxy)"] = rights
    for what, rights in wanted.items():
        missing = await _missing(installation.kube, rights)
        check, mend = f"you may {what}", "the roles of docs/operating/kubectl-plugin.md"
        found = f"you may not: {_shown(missing)}"
        yield failed(check, found, mend) if missing else ok(check)
