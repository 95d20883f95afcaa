"""PolicyRules and subjects, as Kubernetes documents them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.cluster.api.authorization.attributes import Attributes
from local.cluster.api.authorization.rules import rule_allows, subject_means
from local.cluster.api.authorization.users import User, service_account

READ_PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
ALL_PODS = {**READ_PODS, "verbs": ["*"]}
NAMED = {**READ_PODS, "verbs": ["get", "create", "watch"], "resourceNames": ["web"]}
STATUSES = {"verbs": ["patch"], "apiGroups": ["*"], "resources": ["*/status"]}
EVERY_RESOURCE = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
EVICTIONS = {"verbs": ["create"], "apiGroups": [""], "resources": ["pods/eviction"]}
PATHS = {"verbs": ["get"], "nonResourceURLs": ["/version", "/openapi/*"]}
EVERY_PATH = {"verbs": ["get"], "nonResourceURLs": ["*"]}


def asked(verb: str, resource: str = "pods", name: str = "", group: str = "") -> Attributes:
    plural, _, subresource = resource.partition("/")
    return Attributes(verb, group, "v1", plural, subresource, "default", name)


def at(path: str, verb: str = "get") -> Attributes:
    return Attributes(verb, path=path)


@pytest.mark.parametrize(
    ("rule", "request_", "allowed"),
    [
        (READ_PODS, asked("get", name="web"), True),
        (READ_PODS, asked("list"), True),
        (READ_PODS, asked("delete", name="web"), False),
        (READ_PODS, asked("get", "secrets"), False),
        (READ_PODS, asked("get", group="apps"), False),
        (ALL_PODS, asked("deletecollection"), True),
        (READ_PODS, asked("get", "pods/status"), False),
        (ALL_PODS, asked("patch", "pods/status"), False),
        (EVICTIONS, asked("create", "pods/eviction", "web"), True),
        (EVICTIONS, asked("create"), False),
        (EVICTIONS, asked("create", "pods/binding", "web"), False),
        (STATUSES, asked("patch", "nodeclaims/status", "a", "karpenter.sh"), True),
        (STATUSES, asked("patch", "nodeclaims", "a", "karpenter.sh"), False),
        (STATUSES, asked("patch", "nodeclaims/scale", "a", "karpenter.sh"), False),
        (EVERY_RESOURCE, asked("create", "pods/eviction", "web"), True),
        (EVERY_RESOURCE, at("/version"), False),
        (NAMED, asked("get", name="web"), True),
        (NAMED, asked("get", name="other"), False),
        (NAMED, asked("create"), False),
        (NAMED, asked("watch", name="web"), True),
        (PATHS, at("/version"), True),
        (PATHS, at("/version/x"), False),
        (PATHS, at("/openapi/v3"), True),
        (PATHS, at("/openapi"), False),
        (PATHS, at("/version", "post"), False),
        (PATHS, asked("get"), False),
        (EVERY_PATH, at("/anything"), True),
        ({}, asked("get"), False),
        ({"verbs": None, "apiGroups": None, "resources": None}, asked("get"), False),
    ],
)
def test_a_rule_allows_only_its_own_requests(
    rule: dict[str, object], request_: Attributes, allowed: bool
) -> None:
    assert rule_allows(rule, request_) is allowed


WORDS = st.sampled_from(["get", "list", "pods", "nodes", "status", "apps", "web", ""])
REQUESTS = st.builds(
    Attributes, verb=WORDS, group=WORDS, resource=WORDS, subresource=WORDS, name=WORDS, path=WORDS
)
LISTS = st.lists(st.sampled_from(["get", "list", "pods", "pods/status", "*/status", "apps", "web"]))
RULES = st.fixed_dictionaries(
    {"verbs": LISTS, "apiGroups": LISTS, "resources": LISTS, "nonResourceURLs": LISTS},
    optional={"resourceNames": LISTS},
)
FIELDS = ["verbs", "apiGroups", "resources", "nonResourceURLs"]


@given(RULES, REQUESTS, st.sampled_from(FIELDS), st.sampled_from(["get", "pods", "apps", "*"]))
def test_a_longer_list_never_takes_a_right_away(
    rule: dict[str, list[str]], request_: Attributes, field: str, more: str
) -> None:
    wider = {**rule, field: [*rule[field], more]}
    assert rule_allows(wider, request_) >= rule_allows(rule, request_)


@given(RULES, REQUESTS, st.sampled_from(["a", "b"]))
def test_naming_objects_never_gives_a_right(
    rule: dict[str, list[str]], request_: Attributes, name: str
) -> None:
    unnamed = {key: value for key, value in rule.items() if key != "resourceNames"}
    assert rule_allows({**unnamed, "resourceNames": [name]}, request_) <= rule_allows(
        unnamed, request_
    )


@given(RULES, REQUESTS)
def test_a_rule_allows_exactly_what_its_parts_allow(
    rule: dict[str, list[str]], request_: Attributes
) -> None:
    """A rule is the union of the rules with one verb, one group and one resource each."""
    parts = [
        {**rule, "verbs": [verb], "apiGroups": [group], "resources": [resource]}
        for verb in rule["verbs"]
        for group in rule["apiGroups"] or ["-"]
        for resource in rule["resources"] or ["-"]
    ]
    assert rule_allows(rule, request_) == any(rule_allows(part, request_) for part in parts)


ACCOUNT = service_account("dovetail", "dovetail-watcher")
JOE = User("joe", ("developers", "system:authenticated"))


@pytest.mark.parametrize(
    ("subject", "user", "namespace", "meant"),
    [
        ({"kind": "User", "name": "joe"}, JOE, "", True),
        ({"kind": "User", "name": "jane"}, JOE, "", False),
        ({"kind": "User", "name": ACCOUNT.name}, ACCOUNT, "", True),
        ({"kind": "Group", "name": "developers"}, JOE, "", True),
        ({"kind": "Group", "name": "joe"}, JOE, "", False),
        ({"kind": "Group", "name": "system:serviceaccounts"}, ACCOUNT, "", True),
        ({"kind": "Group", "name": "system:serviceaccounts:dovetail"}, ACCOUNT, "", True),
        ({"kind": "Group", "name": "system:serviceaccounts:default"}, ACCOUNT, "", False),
        (
            {"kind": "ServiceAccount", "name": "dovetail-watcher", "namespace": "dovetail"},
            ACCOUNT,
            "",
            True,
        ),
        (
            {"kind": "ServiceAccount", "name": "dovetail-watcher", "namespace": "x"},
            ACCOUNT,
            "",
            False,
        ),
        ({"kind": "ServiceAccount", "name": "dovetail-watcher"}, ACCOUNT, "dovetail", True),
        ({"kind": "ServiceAccount", "name": "dovetail-watcher"}, ACCOUNT, "", False),
        ({"kind": "Robot", "name": "joe"}, JOE, "", False),
    ],
)
def test_a_subject_means_a_user_a_group_or_an_account(
    subject: dict[str, str], user: User, namespace: str, meant: bool
) -> None:
    assert subject_means(subject, user, namespace) is meant
