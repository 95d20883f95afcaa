"""Who sends a request: a name and groups, as a real API server's authenticators make them."""

from __future__ import annotations

from dataclasses import dataclass, field

MASTERS = "system:masters"
"""Members may do everything, whatever the roles say."""
AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
ANONYMOUS = "system:anonymous"
_ACCOUNT = "system:serviceaccount"


@dataclass(frozen=True)
class User:
    """``extra`` holds what an authenticator tells beside name and groups: (key, values)."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())

    def info(self) -> dict[str, object]:
        """The user as ``UserInfo`` of the authentication API."""
        told: dict[str, object] = {"username": self.name, "groups": list(self.groups)}
        if self.uid:
            told["uid"] = self.uid
        if self.extra:
            told["extra"] = {key: list(values) for key, values in self.extra}
        return told


ADMIN = User("kubernetes-admin", (MASTERS, AUTHENTICATED))
"""Whoever comes without credentials: the server listens on the loopback address for its owner."""


def account_name(namespace: str, name: str) -> str:
    """The user name of a ServiceAccount."""
    return f"{_ACCOUNT}:{namespace}:{name}"


def service_account(namespace: str, name: str, uid: str = "") -> User:
    """The user that a ServiceAccount's token stands for."""
    groups = (f"{_ACCOUNT}s", f"{_ACCOUNT}s:{namespace}", AUTHENTICATED)
    return User(account_name(namespace, name), groups, uid)


def split_account(user_name: str) -> tuple[str, str] | None:
    """Namespace and name of the ServiceAccount that a user name stands for; None for any other user."""
    parts = user_name.split(":")
    if len(parts) == 4 and user_name.startswith(f"{_ACCOUNT}:") and parts[2] and parts[3]:
        return parts[2], parts[3]
    return None
