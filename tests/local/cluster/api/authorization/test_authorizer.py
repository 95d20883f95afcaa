"""Roles and bindings of a store, evaluated."""

from __future__ import annotations

import random

import pytest

from local.cluster.api.authorization.attributes import Attributes
from local.cluster.api.authorization.authorizer import Authorizer, Decision
from local.cluster.api.authorization.users import ADMIN, User, service_account
from local.cluster.storage.store import ApiError, Store
from shared.concurrency.clock import SystemClock

GROUP = "rbac.authorization.k8s.io"
ACCOUNT = service_account("team", "robot")
SUBJECT = {"kind": "ServiceAccount", "name": "robot", "namespace": "team"}
READ_PODS = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]


@pytest.fixture
def store() -> Store:
    store = Store(SystemClock(), random.Random(7))
    for name in ("team", "other"):
        store.create("namespaces", {"metadata": {"name": name}})
    return store


@pytest.fixture
def authorizer(store: Store) -> Authorizer:
    return Authorizer(store)


def role(store: Store, kind: str, namespace: str | None = None) -> None:
    body = {"metadata": {"name": "readers"}, "rules": READ_PODS}
    store.create(kind, body, group=GROUP, namespace=namespace)


def bind(store: Store, plural: str, kind: str, namespace: str | None = None) -> None:
    body = {
        "metadata": {"name": "bound"},
        "roleRef": {"kind": kind, "name": "readers"},
        "subjects": [SUBJECT],
    }
    store.create(plural, body, group=GROUP, namespace=namespace)


def get_pod(namespace: str) -> Attributes:
    return Attributes("get", "", "v1", "pods", "", namespace, "web")


def test_a_cluster_role_binding_gives_rights_in_every_namespace(
    store: Store, authorizer: Authorizer
) -> None:
    role(store, "clusterroles")
    bind(store, "clusterrolebindings", "ClusterRole")
    source = 'ClusterRoleBinding "bound" of ClusterRole "readers" to ServiceAccount "robot/team"'
    for namespace in ("team", "other", ""):
        decision = authorizer.decide(ACCOUNT, get_pod(namespace))
        assert decision == Decision(True, f"RBAC: allowed by {source}")


def test_a_role_binding_gives_a_cluster_role_in_its_own_namespace(
    store: Store, authorizer: Authorizer
) -> None:
    role(store, "clusterroles")
    bind(store, "rolebindings", "ClusterRole", "team")
    assert authorizer.decide(ACCOUNT, get_pod("team")).allowed
    assert not authorizer.decide(ACCOUNT, get_pod("other")).allowed
    assert not authorizer.decide(ACCOUNT, get_pod("")).allowed


def test_a_role_of_another_namespace_grants_nothing_and_the_refusal_names_it(
    store: Store, authorizer: Authorizer
) -> None:
    role(store, "roles", "other")
    bind(store, "rolebindings", "Role", "team")
    decision = authorizer.decide(ACCOUNT, get_pod("team"))
    assert decision == Decision(False, f'RBAC: role.{GROUP} "readers" not found')


def test_a_right_ends_with_its_binding_and_comes_with_its_role(
    store: Store, authorizer: Authorizer
) -> None:
    bind(store, "clusterrolebindings", "ClusterRole")
    assert not authorizer.decide(ACCOUNT, get_pod("team")).allowed
    role(store, "clusterroles")
    assert authorizer.decide(ACCOUNT, get_pod("team")).allowed
    store.delete("clusterrolebindings", "bound", group=GROUP)
    assert not authorizer.decide(ACCOUNT, get_pod("team")).allowed


def test_masters_may_do_everything_without_a_role(store: Store, authorizer: Authorizer) -> None:
    store.delete("clusterrolebindings", "cluster-admin", group=GROUP)
    assert authorizer.decide(ADMIN, Attributes("delete", "x", "v1", "y")).allowed


def test_authenticated_users_may_discover_and_review_their_own_rights(
    authorizer: Authorizer,
) -> None:
    nobody = User("nobody", ("system:authenticated",))
    review = Attributes(
        "create", "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "", "", ""
    )
    assert authorizer.decide(nobody, Attributes("get", path="/openapi/v3")).allowed
    assert authorizer.decide(nobody, review).allowed
    assert not authorizer.decide(nobody, get_pod("team")).allowed
    assert not authorizer.decide(User("stranger"), Attributes("get", path="/api")).allowed


@pytest.mark.parametrize(
    ("request_", "message", "details"),
    [
        (
            Attributes("patch", "karpenter.sh", "v1", "nodeclaims", "status", "", "a"),
            'nodeclaims.karpenter.sh "a" is forbidden: User "system:serviceaccount:team:robot" '
            'cannot patch resource "nodeclaims/status" in API group "karpenter.sh" at the cluster scope',
            {"name": "a", "group": "karpenter.sh", "kind": "nodeclaims"},
        ),
        (
            Attributes("list", "", "v1", "pods", "", "other"),
            'pods is forbidden: User "system:serviceaccount:team:robot" cannot list resource "pods" '
            'in API group "" in the namespace "other"',
            {"kind": "pods"},
        ),
        (
            Attributes("get", path="/metrics"),
            'forbidden: User "system:serviceaccount:team:robot" cannot get path "/metrics"',
            {},
        ),
    ],
)
def test_a_refusal_has_a_real_server_s_words(
    authorizer: Authorizer, request_: Attributes, message: str, details: dict[str, str]
) -> None:
    with pytest.raises(ApiError) as refused:
        authorizer.check(ACCOUNT, request_)
    status = refused.value.status()
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert (status["message"], status["details"]) == (message, details)


@pytest.mark.parametrize(
    ("plural", "body", "field"),
    [
        ("clusterroles", {"rules": [{**READ_PODS[0], "verbs": []}]}, "rules[0].verbs"),
        ("clusterroles", {"rules": [{**READ_PODS[0], "apiGroups": []}]}, "rules[0].apiGroups"),
        ("clusterroles", {"rules": [{**READ_PODS[0], "resources": []}]}, "rules[0].resources"),
        (
            "clusterroles",
            {"rules": [{**READ_PODS[0], "nonResourceURLs": ["/x"]}]},
            "rules[0].nonResourceURLs",
        ),
        ("clusterrolebindings", {"roleRef": {"kind": "Role", "name": "x"}}, "roleRef.kind"),
        ("clusterrolebindings", {"roleRef": {"kind": "ClusterRole"}}, "roleRef.name"),
        (
            "clusterrolebindings",
            {
                "roleRef": {"kind": "ClusterRole", "name": "x"},
                "subjects": [{"kind": "ServiceAccount", "name": "y"}],
            },
            "subjects[0].namespace",
        ),
    ],
)
def test_a_role_or_binding_that_can_give_nothing_is_refused(
    store: Store, plural: str, body: dict[str, object], field: str
) -> None:
    with pytest.raises(ApiError) as refused:
        store.create(plural, {"metadata": {"name": "bad"}, **body}, group=GROUP)
    assert refused.value.code == 422
    assert [cause["field"] for cause in refused.value.details["causes"]] == [field]


def test_a_list_that_is_a_text_is_refused_and_never_read_as_letters(store: Store) -> None:
    body = {"metadata": {"name": "bad"}, "rules": [{**READ_PODS[0], "verbs": "get"}]}
    with pytest.raises(ApiError, match=r"rules\[0\]\.verbs must be a list"):
        store.create("clusterroles", body, group=GROUP)


def test_a_binding_keeps_its_role(store: Store) -> None:
    bind(store, "clusterrolebindings", "ClusterRole")
    change = {"roleRef": {"name": "other"}}
    with pytest.raises(ApiError, match="cannot change roleRef"):
        store.patch("clusterrolebindings", "bound", change, group=GROUP)
