"""Tokens of ServiceAccounts: subject, expiry and audience."""

from __future__ import annotations

import random
from typing import Any

import pytest

from local.cluster.api.authorization.tokens import AUDIENCE, Tokens
from local.cluster.storage.store import ApiError, Store
from tests.support.clock.fake import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Store:
    return Store(clock, random.Random(7))


@pytest.fixture
def account(store: Store) -> dict[str, Any]:
    return store.create("serviceaccounts", {"metadata": {"name": "robot"}}, namespace="default")


def test_a_token_stands_for_its_account_until_it_ends(
    store: Store, clock: FakeClock, account: dict[str, Any]
) -> None:
    tokens = Tokens(store)
    token, ends = tokens.issue(account, [], 600)
    user = tokens.user(token)
    assert user.name == "system:serviceaccount:default:robot"
    assert "system:serviceaccounts:default" in user.groups
    assert user.uid == account["metadata"]["uid"]
    assert ends == int(clock.now()) + 600
    clock.advance(601)
    with pytest.raises(ApiError, match="Unauthorized"):
        tokens.user(token)


def test_a_token_ends_with_its_account_even_when_another_takes_the_name(
    store: Store, account: dict[str, Any]
) -> None:
    tokens = Tokens(store)
    token, _ = tokens.issue(account, [], 600)
    store.delete("serviceaccounts", "robot", namespace="default")
    assert tokens.identify(token) is None
    store.create("serviceaccounts", {"metadata": {"name": "robot"}}, namespace="default")
    assert tokens.identify(token) is None


def test_a_token_for_another_server_is_refused_here(store: Store, account: dict[str, Any]) -> None:
    tokens = Tokens(store)
    token, _ = tokens.issue(account, ["sts.amazonaws.com"], 600)
    found = tokens.identify(token)
    assert found is not None
    assert found.audiences == ("sts.amazonaws.com",)
    with pytest.raises(ApiError, match="Unauthorized"):
        tokens.user(token)
    both, _ = tokens.issue(account, [AUDIENCE, "x"], 600)
    assert tokens.user(both).name.endswith(":robot")


@pytest.mark.parametrize("change", ["", "x", ".", "é", "a.b.c"])
def test_only_its_own_signature_counts(store: Store, account: dict[str, Any], change: str) -> None:
    tokens = Tokens(store)
    token, _ = tokens.issue(account, [], 600)
    assert tokens.identify(change) is None
    assert tokens.identify(f"{change}x{token}") is None
    assert Tokens(store).identify(token) is None


def test_a_fixed_token_survives_its_account_being_made_again(
    store: Store, account: dict[str, Any]
) -> None:
    tokens = Tokens(store)
    tokens.fix("secret", "default", "robot")
    store.delete("serviceaccounts", "robot", namespace="default")
    assert tokens.identify("secret") is None
    store.create("serviceaccounts", account | {"metadata": {"name": "robot"}}, namespace="default")
    assert tokens.user("secret").name.endswith(":robot")
