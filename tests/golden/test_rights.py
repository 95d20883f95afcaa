"""Whoever has the rights of this version can run the services of each earlier release: they work side by side while one
replaces the other, with one set of Redis users and roles (docs/operating/version-skew.md).

One document per release: what each Redis user may send on which keys, and what each account may do with which objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.redis.rights import USERS, rights_of

DOCUMENTS = sorted((Path(__file__).parent / "rights").glob("*.json"))
MANIFESTS = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"


def redis_rights() -> dict[str, set[str]]:
    """By user: key and command; one that only reads the key ends in ``read``."""
    return {
        user: {
            f"{key} {command}{' read' if right.read_only else ''}"
            for right in rights_of(user)
            for key in right.keys
            for command in right.commands
        }
        for user in USERS
    }


def account_rights() -> dict[str, set[str]]:
    """By account: namespace, group, resource, name and verb, each ``-`` where a rule names none."""
    documents = [
        one for path in MANIFESTS.glob("*.yaml") for one in yaml.safe_load_all(path.read_text())
    ]
    named = {(one["kind"], place(one), one["metadata"]["name"]): one for one in documents}
    found: dict[str, set[str]] = {}
    for binding in (one for one in documents if one["kind"].endswith("Binding")):
        kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
        role = named.get((kind, "-" if kind == "ClusterRole" else place(binding), name))
        for subject in binding.get("subjects", ()):
            if role is not None:
                found.setdefault(subject["name"], set()).update(granted(role, place(binding)))
    return found


def place(document: dict[str, Any]) -> str:
    return str(document["metadata"].get("namespace", "-"))


def granted(role: dict[str, Any], namespace: str) -> Iterator[str]:
    for rule in role["rules"]:
        for group in rule.get("apiGroups", ()):
            for resource in rule.get("resources", ()):
                for name in rule.get("resourceNames", ["-"]):
                    for verb in rule["verbs"]:
                        yield f"{namespace} {group or 'core'} {resource} {name} {verb}"


def lacking(before: dict[str, list[str]], now: dict[str, set[str]]) -> list[str]:
    """What somebody had and has no more. Who may write a key may read it."""
    return [
        f"{who}: {right}"
        for who, rights in before.items()
        for right in rights
        if not {right, right.removesuffix(" read")} & now.get(who, set())
    ]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_the_services_of_the_release_may_do_with_these_rights_what_they_did(path: Path) -> None:
    before = json.loads(path.read_text())
    assert lacking(before["redis"], redis_rights()) == []
    assert lacking(before["kubernetes"], account_rights()) == []


def test_a_right_that_is_gone_is_named() -> None:
    now = redis_rights()
    before = {user: sorted(rights) for user, rights in now.items()}
    now["scheduler"].remove("unavailable zrangebyscore")
    assert lacking(before, now) == ["scheduler: unavailable zrangebyscore"]
