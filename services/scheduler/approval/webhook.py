"""Sends each command that begins to wait for approval to a webhook, with the signed links that answer it.

Nothing waits for it: commands are queued within a bound and sent by a loop. What may go wrong: the receiver does not
answer or refuses. Then it is asked again with growing pauses, until the command is answered or ends. A scheduler that
ends in between does not send it again; ``dovetail approvals`` lists what waits in any case.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from services.scheduler.approval.documents import change_lines, document
from services.scheduler.approval.links import APPROVE, REJECT, Links
from shared.concurrency.clock import Clock
from shared.disruption.approval import MOST_OFFERS, Offer
from shared.errors import ConfigurationError
from shared.log import get_logger
from shared.settings import SchedulerSettings

log = get_logger(__name__)

STEP_SECONDS = 1.0
REQUEST_SECONDS = 10.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 300.0
MOST_LINES = 12
"""Lines of one change in the text for people."""


@dataclass
class _Due:
    offer: Offer
    at: float
    """Monotonic seconds of the next attempt."""
    pause: float = FIRST_PAUSE_SECONDS


@dataclass
class Webhook:
    """``url``: gets the commands; its path may be a secret, so only ``host`` is logged."""

    url: str
    host: str
    links: Links
    clock: Clock
    problem: str = ""
    """Why the latest command could not be sent; empty: it could."""
    _due: deque[_Due] = field(default_factory=lambda: deque(maxlen=MOST_OFFERS))

    @property
    def who(self) -> str:
        """As whom its links answer."""
        return f"signed link of the webhook {self.host}"

    def offered(self, offer: Offer) -> None:
        """To be sent soon."""
        self._due.append(_Due(offer, self.clock.monotonic()))

    async def step(self) -> None:
        """Send what is due, each once."""
        now = self.clock.monotonic()
        for one in [one for one in self._due if one.at <= now]:
            self._due.remove(one)
            if self.clock.now() >= one.offer.expires_at:
                continue
            why = await self._send(one.offer)
            self.problem = f"approvals are not sent to {self.host}: {why}" if why else ""
            if why:
                log.warning("approval not sent", offer=one.offer.id, host=self.host, why=why)
                pause = min(one.pause * 2, LONGEST_PAUSE_SECONDS)
                self._due.append(_Due(one.offer, now + one.pause, pause))

    async def _send(self, offer: Offer) -> str:
        """Why it was not taken; empty: it was."""
        limits = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=limits, trust_env=True) as session,
                session.post(self.url, json=self.message(offer), allow_redirects=False) as reply,
            ):
                return "" if reply.status < 300 else f"it answered {reply.status}"
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            # Its message may have the whole address.
            return f"it does not answer ({type(error).__name__})"

    def message(self, offer: Offer) -> dict[str, Any]:
        """``text``: for people, as chat systems show it; ``command``: the change, as in ``/status``."""
        links = {
            word: self.links.to(offer.id, word, offer.expires_at) for word in (APPROVE, REJECT)
        }
        lines = change_lines(offer)[:MOST_LINES]
        words = [
            f"Dovetail asks for approval in {self.links.cluster}:",
            *lines,
            *(f"{word}: {link}" for word, link in links.items()),
        ]
        return {
            "text": "\n".join(words),
            "cluster": self.links.cluster,
            "command": document(offer),
            "links": links,
        }


def webhook_of(settings: SchedulerSettings, clock: Clock) -> Webhook | None:
    """None where no webhook is set, and in a shadow. Raises ConfigurationError for settings that do not fit."""
    if not settings.approval_webhook or settings.shadow:
        return None
    address = urlsplit(settings.approval_webhook)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ConfigurationError("APPROVAL_WEBHOOK must be an http or https URL")
    if not (settings.approval_url and settings.approval_key):
        raise ConfigurationError(
            "APPROVAL_WEBHOOK needs APPROVAL_URL, the address in its links, and APPROVAL_KEY, which signs them"
        )
    links = Links(settings.approval_url, settings.approval_key, settings.cluster_name)
    return Webhook(settings.approval_webhook, address.hostname, links, clock)
