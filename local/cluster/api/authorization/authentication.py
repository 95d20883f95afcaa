"""Who sends a request: by its bearer token, or its owner when it has none; and whom it acts for."""

from __future__ import annotations

from starlette.datastructures import Headers

from local.cluster.api.authorization.attributes import Attributes
from local.cluster.api.authorization.authorizer import Authorizer
from local.cluster.api.authorization.tokens import Tokens, unauthorized
from local.cluster.api.authorization.users import (
    ADMIN,
    AUTHENTICATED,
    User,
    service_account,
    split_account,
)
from local.cluster.api.errors import ApiError, bad_request
from local.cluster.storage.store import Store
from shared.log import get_logger

log = get_logger(__name__)

TOLD_LIMIT = 1_000
"""Different refusals that are logged."""


class Access:
    """What one server knows about users: their tokens and their rights."""

    def __init__(self, tokens: Tokens, authorizer: Authorizer) -> None:
        self.tokens = tokens
        self.authorizer = authorizer
        self._told: set[tuple[str, ...]] = set()

    def check(self, user: User, asked: Attributes) -> None:
        """Raises ApiError 403 when ``user`` may not do what is asked, and logs it once."""
        try:
            self.authorizer.check(user, asked)
        except ApiError as refusal:
            self._tell(user, asked, refusal.message)
            raise

    def _tell(self, user: User, asked: Attributes, message: str) -> None:
        # A client that asks again and again must not fill the log.
        refused = (user.name, asked.verb, asked.group, asked.full_resource, asked.namespace)
        if refused not in self._told and len(self._told) < TOLD_LIMIT:
            self._told.add(refused)
            log.warning("request forbidden", user=user.name, verb=asked.verb, reason=message)

    def user(self, headers: Headers) -> User:
        """The user that a request acts as.

        Raises ApiError 401 for a token that is not valid, 403 when the sender may not act for the user that it names.
        """
        sender = self._sender(headers.get("authorization", ""))
        name, groups = headers.get("impersonate-user", ""), headers.getlist("impersonate-group")
        if not name:
            if groups:
                raise bad_request("Impersonate-Group needs Impersonate-User beside it")
            return sender
        self._check_impersonation(sender, name, groups)
        return _impersonated(name, groups)

    def _sender(self, authorization: str) -> User:
        if not authorization:
            return ADMIN
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise unauthorized()
        return self.tokens.user(token.strip())

    def _check_impersonation(self, sender: User, name: str, groups: list[str]) -> None:
        account = split_account(name)
        if account:
            asked = Attributes(
                "impersonate", resource="serviceaccounts", namespace=account[0], name=account[1]
            )
        else:
            asked = Attributes("impersonate", resource="users", name=name)
        self.authorizer.check(sender, asked)
        for group in groups:
            self.authorizer.check(sender, Attributes("impersonate", resource="groups", name=group))


def _impersonated(name: str, groups: list[str]) -> User:
    account = split_account(name)
    if account and not groups:
        return service_account(*account)
    return User(name, (*groups, *(() if AUTHENTICATED in groups else (AUTHENTICATED,))))


def access_to(store: Store) -> Access:
    """Tokens and rights of one store's users."""
    return Access(Tokens(store), Authorizer(store))
