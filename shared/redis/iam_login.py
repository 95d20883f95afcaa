"""Users of ElastiCache and MemoryDB with IAM authentication: the password is a request that is signed.

A token is good for 15 minutes and is made anew for each new connection. AWS closes a connection after 12 hours, which
is an outage of a moment like any other. Credentials come from the process: EKS Pod Identity, IRSA, variables.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError
from botocore.session import Session
from redis.credentials import CredentialProvider
from redis.exceptions import AuthenticationError

from shared.errors import ConfigurationError

TOKEN_SECONDS = 900
OPTIONS = ("iam_cache", "iam_region", "iam_service", "iam_serverless")
"""Options of a REDIS_URL."""
SERVICES = ("elasticache", "memorydb")


@dataclass(frozen=True)
class IamUser:
    """A user, and the cache that it opens. ``service``: one of ``SERVICES``."""

    name: str
    cache: str
    region: str
    service: str = "elasticache"
    serverless: bool = False

    def request(self) -> str:
        """The URL to sign."""
        words = {"Action": "connect", "User": self.name}
        if self.serverless:
            words["ResourceType"] = "ServerlessCache"
        return f"http://{self.cache}/?{urlencode(words)}"


def user_of(options: MutableMapping[str, Any], scheme: str) -> IamUser:
    """The user of a parsed REDIS_URL; its name and ``OPTIONS`` are taken out of ``options``.

    Raises ConfigurationError for a user that cannot log in so.
    """
    given = {name: str(options.pop(name)) for name in OPTIONS if name in options}
    service = given.get("iam_service", SERVICES[0])
    if scheme != "rediss":
        raise ConfigurationError("REDIS_URL: iam_cache needs rediss://, since AWS wants TLS for it")
    if not options.get("username") or options.get("password"):
        raise ConfigurationError(
            "REDIS_URL: iam_cache needs a user without password: rediss://USER@HOST"
        )
    if not given.get("iam_cache") or not given.get("iam_region"):
        raise ConfigurationError("REDIS_URL: give both iam_cache, the cache's name, and iam_region")
    if service not in SERVICES:
        raise ConfigurationError(f"REDIS_URL: iam_service must be {' or '.join(SERVICES)}")
    serverless = given.get("iam_serverless", "").lower() == "true"
    cache = given["iam_cache"].lower()
    return IamUser(options.pop("username"), cache, given["iam_region"], service, serverless)


class IamLogin(CredentialProvider):
    """Gives redis-py a new token for each connection."""

    def __init__(self, user: IamUser) -> None:
        self._user = user
        self._credentials: Any = None

    async def get_credentials_async(self) -> tuple[str, str]:
        """User and token. In a thread: credentials may have to be fetched. Raises AuthenticationError without any."""
        return self._user.name, await asyncio.to_thread(self._token)

    def _token(self) -> str:
        try:
            self._credentials = self._credentials or Session().get_credentials()
            if self._credentials is not None:
                return token(self._user, self._credentials.get_frozen_credentials())
        except BotoCoreError as error:
            raise AuthenticationError(
                f"no AWS credentials for {self._user.name}: {error}"
            ) from error
        raise AuthenticationError(
            f"no AWS credentials for the user {self._user.name}: give the service account a role with "
            f"{self._user.service}:Connect"
        )


def token(user: IamUser, credentials: Any) -> str:
    """The user's password from now on for ``TOKEN_SECONDS``. ``credentials``: botocore's, frozen."""
    request = AWSRequest("GET", user.request())
    SigV4QueryAuth(credentials, user.service, user.region, TOKEN_SECONDS).add_auth(request)
    return str(request.url).removeprefix("http://")
