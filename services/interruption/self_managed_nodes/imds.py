"""The instance metadata service, version 2: a token first, then small texts.

What may go wrong: the token runs out or is forgotten (401): a new one is fetched once. From inside a pod the answer to
a token may need one hop more than the instance allows: the agent runs in the network of its host.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

import aiohttp

from shared.concurrency.clock import Clock
from shared.errors import DovetailError, Throttled, Unauthorized, Unavailable, Unreachable

TOKEN_SECONDS = 21_600
EARLY_SECONDS = 300.0
"""A token is replaced this long before it runs out."""
TIMEOUT_SECONDS = 2.0
LONGEST_TEXT = 64 * 1024


@dataclass
class Imds:
    """A client of one endpoint, without ``/latest``; call ``close`` at the end."""

    endpoint: str
    clock: Clock
    _session: aiohttp.ClientSession | None = None
    _token: str = ""
    _until: float = 0.0

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str) -> str | None:
        """The text at ``meta-data/...``; None when there is none (404). Raises TransientError and Unauthorized."""
        status, text = await self._ask("GET", path, await self._headers())
        if status == HTTPStatus.UNAUTHORIZED:
            self._token = ""
            status, text = await self._ask("GET", path, await self._headers())
        if status == HTTPStatus.NOT_FOUND:
            return None
        if status != HTTPStatus.OK:
            raise _fault(path, status)
        return text

    async def _headers(self) -> dict[str, str]:
        now = self.clock.monotonic()
        if not self._token or now >= self._until:
            wanted = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
            status, text = await self._ask("PUT", "api/token", wanted)
            if status != HTTPStatus.OK:
                raise _fault("api/token", status)
            self._token, self._until = text, now + TOKEN_SECONDS - EARLY_SECONDS
        return {"X-aws-ec2-metadata-token": self._token}

    async def _ask(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        if self._session is None:
            # No proxy: the address is the instance's own.
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
            )
        url = f"{self.endpoint.rstrip('/')}/latest/{path}"
        try:
            async with self._session.request(
                method, url, headers=headers, allow_redirects=False
            ) as answer:
                text = await answer.content.read(LONGEST_TEXT)
                return answer.status, text.decode("utf-8", "replace")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(
                f"no metadata service at {self.endpoint}: {error!r}; run in the host's network, or check IMDS_ENDPOINT"
            ) from error


def _fault(path: str, status: int) -> DovetailError:
    text = f"the metadata service answers {path} with {status}"
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return Unauthorized(f"{text}: is it switched off for this instance (HttpEndpoint)?")
    return Throttled(text) if status == HTTPStatus.TOO_MANY_REQUESTS else Unavailable(text)
