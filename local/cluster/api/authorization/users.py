"""Users of requests: a name and groups, as a real API server's authenticators produce them."""

from __future__ import annotations

from dataclasses import dataclass

MASTERS = "system:masters"
"""The group whose members may do everything, independent of roles."""
AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
_ACCOUNT = "system:serviceaccount"


@dataclass(frozen=True)
class User:
    """The sender of a request, or the user that it names."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    def info(self) -> dict[str, object]:
        """The user as ``UserInfo`` of the authentication API."""
        uid = {"uid": self.uid} if self.uid else {}
        return {"username": self.name, "groups": list(self.groups), **uid}


ADMIN = User("kubernetes-admin", (MASTERS, AUTHENTICATED))
"""The user of requests without credentials: the server listens only on the loopback address, for its owner."""


def account_name(namespace: str, name: str) -> str:
    """The user name of a ServiceAccount."""
    return f"{_ACCOUNT}:{namespace}:{name}"


def service_account(namespace: str, name: str, uid: str = "") -> User:
    """The user of a ServiceAccount's token."""
    groups = (f"{_ACCOUNT}s", f"{_ACCOUNT}s:{namespace}", AUTHENTICATED)
    return User(account_name(namespace, name), groups, uid)


def split_account(user_name: str) -> tuple[str, str] | None:
    """Namespace and name of the ServiceAccount with this user name; None for any other user."""
    parts = user_name.split(":")
    if len(parts) == 4 and user_name.startswith(f"{_ACCOUNT}:") and parts[2] and parts[3]:
        return parts[2], parts[3]
    return None
