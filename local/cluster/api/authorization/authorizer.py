"""The RBAC authorizer: which rules reach a user, and whether one of them allows a request.

The rules of each user are kept until a role or a binding changes. What may go wrong: a binding names
a role that does not exist; as on a real server it then gives nothing, and the refusal says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from local.cluster.api.authorization.attributes import Attributes
from local.cluster.api.authorization.rules import Rule, rule_allows, subject_means
from local.cluster.api.authorization.users import MASTERS, User
from local.cluster.builtin.resources import RBAC, RBAC_GROUP

if TYPE_CHECKING:
    from local.cluster.storage.store import Store

EVERYTHING: tuple[Rule, ...] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
USERS_KEPT = 1_000
"""Users whose rules are kept; beyond that all are worked out anew."""


@dataclass(frozen=True)
class Grant:
    """What one binding gives: ``rules`` everywhere, or in ``namespace`` alone when it is not empty."""

    rules: tuple[Rule, ...]
    namespace: str
    source: str
    fault: str = ""


@dataclass(frozen=True)
class Decision:
    """``reason`` says which binding allows it, or which roles of a refusal could not be read."""

    allowed: bool
    reason: str = ""


class Authorizer:
    """Decides by the Roles, ClusterRoles and bindings of one store as they are now."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[User, tuple[Grant, ...]] = {}
        self._kept_at: tuple[int, ...] = ()

    def decide(self, user: User, asked: Attributes) -> Decision:
        """Whether ``user`` may do what is asked."""
        if MASTERS in user.groups:
            return Decision(True)
        faults = []
        for grant in self._grants_in(user, asked.namespace):
            if any(rule_allows(rule, asked) for rule in grant.rules):
                return Decision(True, f"RBAC: allowed by {grant.source}")
            if grant.fault:
                faults.append(grant.fault)
        return Decision(False, f"RBAC: {', '.join(sorted({*faults}))}" if faults else "")

    def check(self, user: User, asked: Attributes) -> None:
        """Raises ApiError 403 when ``user`` may not do what is asked."""
        decision = self.decide(user, asked)
        if not decision.allowed:
            raise asked.refused(user.name, decision.reason)

    def rules_of(self, user: User, namespace: str) -> tuple[Rule, ...]:
        """Every rule that reaches ``user`` in ``namespace`` (empty: cluster-wide ones alone)."""
        if MASTERS in user.groups:
            return EVERYTHING
        return tuple(rule for grant in self._grants_in(user, namespace) for rule in grant.rules)

    def _grants_in(self, user: User, namespace: str) -> Iterator[Grant]:
        return (g for g in self._grants(user) if not g.namespace or g.namespace == namespace)

    def _grants(self, user: User) -> tuple[Grant, ...]:
        now = tuple(self._store.collection(kind.plural, RBAC_GROUP).log.end for kind in RBAC)
        if now != self._kept_at or len(self._kept) >= USERS_KEPT:
            self._kept, self._kept_at = {}, now
        if user not in self._kept:
            self._kept[user] = tuple(self._read_grants(user))
        return self._kept[user]

    def _read_grants(self, user: User) -> Iterator[Grant]:
        for plural in ("clusterrolebindings", "rolebindings"):
            for binding in self._store.list(plural, group=RBAC_GROUP):
                namespace = binding["metadata"].get("namespace") or ""
                meant = (
                    one
                    for one in binding.get("subjects") or ()
                    if subject_means(one, user, namespace)
                )
                subject = next(meant, None)
                if subject is not None:
                    yield self._grant(binding, namespace, subject)

    def _grant(self, binding: dict[str, Any], namespace: str, subject: dict[str, Any]) -> Grant:
        reference, source = binding["roleRef"], _source(binding, namespace, subject)
        cluster_wide = reference.get("kind") == "ClusterRole"
        plural = "clusterroles" if cluster_wide else "roles"
        role = self._store.find(
            plural,
            reference["name"],
            group=RBAC_GROUP,
            namespace=None if cluster_wide else namespace,
        )
        if role is None:
            fault = f'{plural[:-1]}.{RBAC_GROUP} "{reference["name"]}" not found'
            return Grant((), namespace, source, fault)
        return Grant(tuple(role.get("rules") or ()), namespace, source)


def _source(binding: dict[str, Any], namespace: str, subject: dict[str, Any]) -> str:
    reference, name = binding["roleRef"], binding["metadata"]["name"]
    bound = f'RoleBinding "{name}/{namespace}"' if namespace else f'ClusterRoleBinding "{name}"'
    told = subject["name"]
    if subject.get("kind") == "ServiceAccount":
        told = f"{told}/{subject.get('namespace') or namespace}"
    return f'{bound} of {reference["kind"]} "{reference["name"]}" to {subject["kind"]} "{told}"'
