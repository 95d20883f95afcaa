"""Who may read the console: everybody on a loopback address, or whoever has a token that the API server authorizes.

A browser sends the token as a cookie that no script can read; programs send it as ``Authorization: Bearer``.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from shared.errors import ConfigurationError
from shared.kube.token_access import TokenAccess, Verdict

COOKIE = "dovetail_console"
PATH = "/console"
"""The nonResourceURL of the ClusterRole's rule, with the verb ``get``."""
OPEN = Verdict(200)


def check_open(access: str, host: str) -> None:
    """Raises ConfigurationError when everybody on a network could read the page."""
    if access == "open" and not _is_loopback(host):
        raise ConfigurationError(
            f"CONSOLE_ACCESS=open with STATUS_HOST={host} would show the cluster to everybody who reaches the port; "
            "set CONSOLE_ACCESS=authenticated, or STATUS_HOST=127.0.0.1; where only 127.0.0.1 is published, unprotected"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True)
class Access:
    """``tokens`` None: open."""

    tokens: TokenAccess | None

    async def judge(self, credential: str, cookie: str) -> Verdict:
        """``cookie``: the value of ``COOKIE``, a token."""
        if self.tokens is None:
            return OPEN
        return await self.tokens.judge(credential or f"Bearer {cookie}", PATH)
