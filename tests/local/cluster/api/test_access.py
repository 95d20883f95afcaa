"""Authorization over HTTP: tokens, refusals, reviews, impersonation."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.local.cluster.api.conftest import Api, Document
from tests.support.cluster.kubectl import Kubectl

GROUP = "rbac.authorization.k8s.io"
ROBOT = "system:serviceaccount:default:robot"
ACCESS = "/apis/authorization.k8s.io/v1"
IDENTITY = "/apis/authentication.k8s.io/v1"
TOKEN_PATH = "/api/v1/namespaces/default/serviceaccounts/robot/token"


def grant(api: Api, *rules: Any) -> None:
    """A ClusterRole with these rules, and its binding to the robot."""
    api.store.create(
        "clusterroles", {"metadata": {"name": "robot"}, "rules": list(rules)}, group=GROUP
    )
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}
    reference = {"kind": "ClusterRole", "name": "robot"}
    binding = {"metadata": {"name": "robot"}, "roleRef": reference, "subjects": [subject]}
    api.store.create("clusterrolebindings", binding, group=GROUP)


@pytest.fixture
async def robot(api: Api) -> dict[str, str]:
    """The Authorization header of a ServiceAccount without rights."""
    api.store.create("serviceaccounts", {"metadata": {"name": "robot"}}, namespace="default")
    _, answer = await api.post(TOKEN_PATH, {"spec": {}})
    return {"Authorization": f"Bearer {answer['status']['token']}"}


async def test_an_account_without_a_role_may_discover_and_no_more(
    api: Api, robot: dict[str, str]
) -> None:
    assert (await api.get("/apis", **robot))[0] == 200
    assert (await api.get("/apis/apps/v1", **robot))[0] == 200
    code, status = await api.get("/api/v1/pods", **robot)
    assert (code, status["reason"]) == (403, "Forbidden")
    assert status["message"] == (
        f'pods is forbidden: User "{ROBOT}" cannot list resource "pods" in API group "" '
        "at the cluster scope"
    )
    assert (await api.get("/metrics", **robot))[0] == 403


async def test_without_a_token_the_owner_of_the_cluster_asks(api: Api) -> None:
    assert (await api.get("/api/v1/pods"))[0] == 200


@pytest.mark.parametrize("header", ["Bearer wrong", "Bearer ", "Basic eDp5", "nonsense"])
async def test_wrong_credentials_are_refused_and_never_taken_for_none(
    api: Api, header: str
) -> None:
    code, status = await api.get("/api/v1/pods", Authorization=header)
    assert (code, status["reason"]) == (401, "Unauthorized")


async def test_verbs_are_distinguished(api: Api, robot: dict[str, str], pod: Document) -> None:
    api.store.create("pods", pod, namespace="default")
    grant(api, {"verbs": ["get", "create"], "apiGroups": [""], "resources": ["pods"]})
    pods = "/api/v1/namespaces/default/pods"
    assert (await api.get(f"{pods}/web", **robot))[0] == 200
    assert (await api.get(pods, **robot))[0] == 403
    assert "cannot watch" in (await api.get(f"{pods}?watch=1", **robot))[1]["message"]
    other = {**pod, "metadata": {"name": "other"}}
    assert (await api.call("POST", pods, other, **robot))[0] == 201
    for method, path, verb in (
        ("DELETE", pods, "deletecollection"),
        ("DELETE", f"{pods}/web", "delete"),
        ("PUT", f"{pods}/web", "update"),
        ("PATCH", f"{pods}/web/status", "patch"),
        ("POST", f"{pods}/web/eviction", "create"),
    ):
        code, status = await api.call(method, path, {}, **robot)
        assert (code, f"cannot {verb} resource" in status["message"]) == (403, True)


async def test_one_named_object_may_be_listed_and_watched_by_its_name(
    api: Api, robot: dict[str, str]
) -> None:
    rule = {"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]}
    grant(api, {**rule, "resourceNames": ["settings"]})
    path = "/api/v1/namespaces/default/configmaps"
    assert (await api.get(f"{path}?fieldSelector=metadata.name%3Dsettings", **robot))[0] == 200
    assert (await api.get(f"{path}?fieldSelector=metadata.name%3Dother", **robot))[0] == 403
    assert (await api.get(path, **robot))[0] == 403


async def test_apply_of_what_is_not_there_needs_the_right_to_create(
    api: Api, robot: dict[str, str]
) -> None:
    grant(api, {"verbs": ["patch"], "apiGroups": [""], "resources": ["configmaps"]})
    path = "/api/v1/namespaces/default/configmaps/settings?fieldManager=me"
    body = {"apiVersion": "v1", "kind": "ConfigMap"}
    sent = {"media": "application/apply-patch+yaml", **robot}
    code, status = await api.call("PATCH", path, body, **sent)
    assert (code, 'cannot create resource "configmaps"' in status["message"]) == (403, True)
    assert (await api.call("PATCH", path, body, media=sent["media"]))[0] == 201
    assert (await api.call("PATCH", path, body, **sent))[0] == 200


async def test_reviews_match_the_servers_decisions(api: Api, robot: dict[str, str]) -> None:
    grant(api, {"verbs": ["patch"], "apiGroups": ["apps"], "resources": ["deployments/scale"]})
    attributes = {
        "verb": "patch",
        "group": "apps",
        "resource": "deployments",
        "subresource": "scale",
    }
    spec = {"resourceAttributes": attributes}
    own = f"{ACCESS}/selfsubjectaccessreviews"
    code, answer = await api.call("POST", own, {"spec": spec}, **robot)
    assert (code, answer["status"]["allowed"]) == (201, True)
    assert answer["status"]["reason"].startswith('RBAC: allowed by ClusterRoleBinding "robot"')
    del attributes["subresource"]
    assert (await api.call("POST", own, {"spec": spec}, **robot))[1]["status"] == {"allowed": False}
    others = f"{ACCESS}/subjectaccessreviews"
    assert (await api.post(others, {"spec": {**spec, "user": ROBOT}}))[1]["status"] == {
        "allowed": False
    }
    assert (await api.call("POST", others, {"spec": {**spec, "user": ROBOT}}, **robot))[0] == 403
    path = {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/api"}}}
    assert (await api.call("POST", own, path, **robot))[1]["status"]["allowed"] is True
    assert (await api.post(own, {"spec": {}}))[0] == 400


async def test_own_rules_are_listed(api: Api, robot: dict[str, str]) -> None:
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}
    grant(api, rule)
    _, answer = await api.call(
        "POST", f"{ACCESS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, **robot
    )
    assert rule in answer["status"]["resourceRules"]
    assert any("/api" in r["nonResourceURLs"] for r in answer["status"]["nonResourceRules"])


async def test_a_token_review_names_the_user_behind_a_token(
    api: Api, robot: dict[str, str]
) -> None:
    token = robot["Authorization"].removeprefix("Bearer ")
    _, answer = await api.post(f"{IDENTITY}/tokenreviews", {"spec": {"token": token}})
    assert answer["status"]["authenticated"] is True
    assert answer["status"]["user"]["username"] == ROBOT
    elsewhere = {"spec": {"token": token, "audiences": ["elsewhere"]}}
    for spec in (elsewhere, {"spec": {"token": "wrong"}}):
        _, answer = await api.post(f"{IDENTITY}/tokenreviews", spec)
        assert "authenticated" not in answer["status"]
        assert answer["status"]["error"]


async def test_a_token_lasts_as_long_as_asked_and_ten_minutes_at_least(
    api: Api, robot: dict[str, str]
) -> None:
    code, answer = await api.post(TOKEN_PATH, {"spec": {"expirationSeconds": 7200}})
    claims = answer["status"]["token"].split(".")[1]
    content = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert (code, content["exp"] - content["iat"], content["sub"]) == (201, 7200, ROBOT)
    code, status = await api.post(TOKEN_PATH, {"spec": {"expirationSeconds": 60}})
    assert (code, "10 minutes" in status["message"]) == (422, True)
    assert (await api.post(TOKEN_PATH.replace("robot", "nobody"), {"spec": {}}))[0] == 404


async def test_only_who_may_impersonate_acts_for_another(api: Api, robot: dict[str, str]) -> None:
    as_robot = {"Impersonate-User": ROBOT}
    own = f"{IDENTITY}/selfsubjectreviews"
    _, answer = await api.call("POST", own, {}, **as_robot)
    assert answer["status"]["userInfo"]["username"] == ROBOT
    assert (await api.get("/api/v1/pods", **as_robot))[0] == 403
    code, status = await api.get("/api/v1/pods", **robot, **{"Impersonate-User": "admin"})
    assert (code, 'cannot impersonate resource "users"' in status["message"]) == (403, True)
    as_master = {"Impersonate-User": ROBOT, "Impersonate-Group": "system:masters"}
    assert (await api.get("/api/v1/pods", **robot, **as_master))[0] == 403
    assert (await api.get("/api/v1/pods", **{"Impersonate-Group": "x"}))[0] == 400


async def test_kubectl_can_i_in_protobuf_is_answered(
    kubectl: Kubectl, api: Api, robot: dict[str, str]
) -> None:
    grant(api, {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})
    as_robot = f"--as={ROBOT}"
    assert await kubectl("auth", "can-i", "get", "pods", as_robot) == (0, "yes\n")
    assert await kubectl("auth", "can-i", "delete", "pods", as_robot) == (1, "no\n")
    assert "[get]" in (await kubectl("auth", "can-i", "--list", as_robot))[1]
    code, text = await kubectl("get", "nodes", as_robot)
    assert code == 1
    assert "Error from server (Forbidden): nodes is forbidden" in text


async def test_kubectl_says_who_it_is_and_makes_tokens(
    kubectl: Kubectl, api: Api, robot: dict[str, str]
) -> None:
    kubectl.needs_today("it has neither auth whoami nor create token")
    assert ROBOT in (await kubectl("auth", "whoami", f"--as={ROBOT}"))[1]
    code, token = await kubectl("create", "token", "robot")
    assert (code, token.count(".")) == (0, 2)


MANAGE_ROLES = {
    "verbs": ["create", "patch"],
    "apiGroups": [GROUP],
    "resources": ["roles", "rolebindings"],
}
READ = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/status"]}
ROLES = f"/apis/{GROUP}/v1/namespaces/default/roles"
BINDINGS = f"/apis/{GROUP}/v1/namespaces/default/rolebindings"


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        (READ, True),
        ({**READ, "verbs": ["list"], "resources": ["pods/status"]}, True),
        ({**READ, "resourceNames": ["web"]}, True),
        ({**READ, "verbs": ["get", "delete"]}, False),
        ({**READ, "resources": ["pods", "secrets"]}, False),
        ({**READ, "apiGroups": ["*"]}, False),
        ({**READ, "resources": ["*"]}, False),
    ],
)
async def test_a_role_cannot_grant_rights_that_its_author_lacks(
    api: Api, robot: dict[str, str], rule: Any, allowed: bool
) -> None:
    grant(api, MANAGE_ROLES, READ)
    role = {"metadata": {"name": "mine"}, "rules": [rule]}
    code, status = await api.call("POST", ROLES, role, **robot)
    assert code == (201 if allowed else 403), status
    if not allowed:
        assert "is attempting to grant RBAC permissions not currently held" in status["message"]
    api.store.create("roles", {"metadata": {"name": "small"}}, group=GROUP, namespace="default")
    sent = {"media": "application/merge-patch+json", **robot}
    code, _ = await api.call("PATCH", f"{ROLES}/small", {"rules": [rule]}, **sent)
    assert code == (200 if allowed else 403)


async def test_a_binding_cannot_grant_rights_that_its_author_lacks_without_the_verb_bind(
    api: Api, robot: dict[str, str]
) -> None:
    view = {"kind": "ClusterRole", "name": "view"}
    binding = {"metadata": {"name": "more"}, "roleRef": view, "subjects": []}
    grant(api, MANAGE_ROLES)
    assert (await api.call("POST", BINDINGS, binding, **robot))[0] == 403
    may = {"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"]}
    wider = {"rules": [MANAGE_ROLES, {**may, "resourceNames": ["view"]}]}
    api.store.patch("clusterroles", "robot", wider, group=GROUP)
    assert (await api.call("POST", BINDINGS, binding, **robot))[0] == 201
    other = {**binding, "metadata": {"name": "most"}, "roleRef": {**view, "name": "edit"}}
    assert (await api.call("POST", BINDINGS, other, **robot))[0] == 403
    assert (await api.call("POST", BINDINGS, other))[0] == 201
