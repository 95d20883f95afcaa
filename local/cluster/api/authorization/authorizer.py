"""The RBAC authorizer: the rules that apply to a user, and whether one of them allows a request.

The rules of each user are cached until a role or a binding changes. As on a real server, a binding to a missing role
grants nothing, and the refusal names the missing role.
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
"""Most users whose rules are cached; above it the whole cache is dropped."""
DECISIONS_KEPT = 10_000
"""The same for decisions."""


@dataclass(frozen=True)
class Grant:
    """The rights of one binding: ``rules`` in all namespaces, or only in ``namespace`` when it is not empty."""

    rules: tuple[Rule, ...]
    namespace: str
    source: str
    fault: str = ""


@dataclass(frozen=True)
class Decision:
    """``reason`` names the binding that allows the request, or the roles that could not be read."""

    allowed: bool
    reason: str = ""


class Authorizer:
    """Decides by the current Roles, ClusterRoles and bindings of one store. Decisions are kept until one changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[User, tuple[Grant, ...]] = {}
        self._decisions: dict[tuple[User, Attributes], Decision] = {}
        self._kept_at: tuple[int, ...] = ()

    def decide(self, user: User, attributes: Attributes) -> Decision:
        """Whether ``user`` may perform the request."""
        if MASTERS in user.groups:
            return Decision(True)
        self._forget_old()
        asked = user, attributes
        found = self._decisions.get(asked)
        if found is None:
            found = self._decisions[asked] = self._decided(user, attributes)
        return found

    def _decided(self, user: User, attributes: Attributes) -> Decision:
        faults = []
        for grant in self._grants_in(user, attributes.namespace):
            if any(rule_allows(rule, attributes) for rule in grant.rules):
                return Decision(True, f"RBAC: allowed by {grant.source}")
            if grant.fault:
                faults.append(grant.fault)
        return Decision(False, f"RBAC: {', '.join(sorted({*faults}))}" if faults else "")

    def check(self, user: User, attributes: Attributes) -> None:
        """Raises ApiError 403 when ``user`` may not perform the request."""
        decision = self.decide(user, attributes)
        if not decision.allowed:
            raise attributes.refused(user.name, decision.reason)

    def rules_of(self, user: User, namespace: str) -> tuple[Rule, ...]:
        """Every rule that applies to ``user`` in ``namespace`` (empty: only cluster-wide rules)."""
        if MASTERS in user.groups:
            return EVERYTHING
        return tuple(rule for grant in self._grants_in(user, namespace) for rule in grant.rules)

    def _grants_in(self, user: User, namespace: str) -> Iterator[Grant]:
        return (g for g in self._grants(user) if not g.namespace or g.namespace == namespace)

    def _grants(self, user: User) -> tuple[Grant, ...]:
        self._forget_old()
        if user not in self._kept:
            self._kept[user] = tuple(self._read_grants(user))
        return self._kept[user]

    def _forget_old(self) -> None:
        now = tuple(self._store.collection(kind.plural, RBAC_GROUP).log.end for kind in RBAC)
        full = len(self._kept) >= USERS_KEPT or len(self._decisions) >= DECISIONS_KEPT
        if now != self._kept_at or full:
            self._kept, self._decisions, self._kept_at = {}, {}, now

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
    subject_name = subject["name"]
    if subject.get("kind") == "ServiceAccount":
        subject_name = f"{subject_name}/{subject.get('namespace') or namespace}"
    return f'{bound} of {reference["kind"]} "{reference["name"]}" to {subject["kind"]} "{subject_name}"'
