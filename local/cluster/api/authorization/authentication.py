"""The user of a request: the owner of its bearer token, the administrator without a token, or the impersonated user."""

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

LOGGED_REFUSALS_LIMIT = 1_000
"""Most different refusals that are logged."""


class Access:
    """The users of one server: their tokens and their rights."""

    def __init__(self, tokens: Tokens, authorizer: Authorizer) -> None:
        self.tokens = tokens
        self.authorizer = authorizer
        self._logged: set[tuple[str, ...]] = set()

    def check(self, user: User, attributes: Attributes) -> None:
        """Raises ApiError 403 when ``user`` may not perform the request, and logs the refusal once."""
        try:
            self.authorizer.check(user, attributes)
        except ApiError as refusal:
            self._log_refusal(user, attributes, refusal.message)
            raise

    def _log_refusal(self, user: User, attributes: Attributes, message: str) -> None:
        # A client that repeats a refused request must not fill the log.
        refused = (
            user.name,
            attributes.verb,
            attributes.group,
            attributes.full_resource,
            attributes.namespace,
        )
        if refused not in self._logged and len(self._logged) < LOGGED_REFUSALS_LIMIT:
            self._logged.add(refused)
            log.warning("request forbidden", user=user.name, verb=attributes.verb, reason=message)

    def user(self, headers: Headers) -> User:
        """The user as whom a request acts.

        Raises ApiError 401 for an invalid token, 403 when the sender may not impersonate the named user.
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
            attributes = Attributes(
                "impersonate", resource="serviceaccounts", namespace=account[0], name=account[1]
            )
        else:
            attributes = Attributes("impersonate", resource="users", name=name)
        self.authorizer.check(sender, attributes)
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
