"""Messages that were received and are not deleted: SQS hides each of them from all readers until its delivery runs out.

A delivery is short, so that what a killed process held is handed out again within seconds. While its message waits or
is handled it is renewed, for ``LONGEST_SECONDS`` in all, so that slow handling does not make it come twice. A role that
may not renew, such as one made for Karpenter, gets deliveries of Karpenter's length, which are not renewed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.cloud.sqs import BATCH, Sqs
from shared.concurrency.clock import Clock
from shared.concurrency.parallel import in_parallel
from shared.errors import DovetailError, Unauthorized
from shared.log import get_logger

log = get_logger(__name__)

VISIBILITY_SECONDS = 8
LONG_VISIBILITY_SECONDS = 20
"""Of deliveries that cannot be renewed (INT-03)."""
MARGIN_SECONDS = 1.0
"""A delivery counts as expired this much before SQS gives the message to another reader."""
RENEWAL_PERIOD_SECONDS = 1.0
RENEW_BELOW_SECONDS = 5.0
"""A delivery with less left is renewed: early enough to try again several times."""
LONGEST_SECONDS = 60.0
"""Then the message may come again although it is still held: its handling may hang."""
RENEWALS_AT_ONCE = 4
FORBIDDEN_SECONDS = 300.0
"""After a refusal no renewal is tried for this long."""


@dataclass
class Delivery:
    """One receipt. Monotonic seconds: from ``until`` another reader may get the message; from ``last`` it is not
    renewed."""

    receipt: str
    until: float
    last: float


@dataclass
class Deliveries:
    """Those of one queue. Bounded by the backlog: its source receives nothing while it waits for room."""

    sqs: Sqs
    clock: Clock
    _held: dict[str, Delivery] = field(default_factory=dict)
    """By receipt."""
    _forbidden_until: float = float("-inf")

    def __len__(self) -> int:
        return len(self._held)

    @property
    def visibility_seconds(self) -> int:
        """How long the next delivery is to be."""
        if self.clock.monotonic() < self._forbidden_until:
            return LONG_VISIBILITY_SECONDS
        return VISIBILITY_SECONDS

    def add(self, receipt: str, visibility_seconds: int) -> Delivery:
        """A delivery that begins now."""
        now = self.clock.monotonic()
        until = now + visibility_seconds - MARGIN_SECONDS
        delivery = self._held[receipt] = Delivery(receipt, until, now + LONGEST_SECONDS)
        return delivery

    def end(self, receipt: str) -> None:
        """Renew it no more: the message is deleted, or is to come again."""
        self._held.pop(receipt, None)

    def due(self) -> list[Delivery]:
        """Those that a renewal would be asked for now."""
        now = self.clock.monotonic()
        return [one for one in self._held.values() if _is_due(one, now)]

    async def renew(self, url: str) -> None:
        """Renew those that run out soon. A failure is logged: at worst the messages come again, which is harmless."""
        now = self.clock.monotonic()
        self._held = {receipt: one for receipt, one in self._held.items() if now < one.until}
        if now < self._forbidden_until:
            return
        due = self.due()
        batches = (due[start : start + BATCH] for start in range(0, len(due), BATCH))
        await in_parallel((self._renew(url, batch) for batch in batches), most=RENEWALS_AT_ONCE)

    async def _renew(self, url: str, batch: list[Delivery]) -> None:
        begun = self.clock.monotonic()
        until = begun + VISIBILITY_SECONDS - MARGIN_SECONDS
        try:
            failed = await self.sqs.hide(url, [one.receipt for one in batch], VISIBILITY_SECONDS)
        except Unauthorized as error:
            self._forbidden_until = self.clock.monotonic() + FORBIDDEN_SECONDS
            log.warning("deliveries cannot be renewed, they are longer", error=error.message)
        except DovetailError as error:
            log.warning("deliveries were not renewed", error=error.message)
        else:
            for one in batch:
                if one.receipt not in failed:
                    one.until = until
                else:
                    one.last = begun  # deleted, or visible already: SQS would refuse it again at each renewal


def _is_due(delivery: Delivery, now: float) -> bool:
    return delivery.until - now < RENEW_BELOW_SECONDS and now < delivery.last
