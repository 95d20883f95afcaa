"""What users see of approvals: a log line and an event on each pool that asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from shared.api.core.references import to_pool
from shared.disruption.approval import Answer, End, Offer, requiring_pools
from shared.kube.recorder import Recorder
from shared.log import get_logger
from shared.metrics import Metrics

log = get_logger(__name__)

OFFERED, ANSWERED, ENDED = "ApprovalRequired", "ApprovalAnswered", "ApprovalEnded"
"""Reasons of the events."""


@dataclass
class ApprovalReporter:
    recorder: Recorder
    metrics: Metrics

    async def offered(self, offer: Offer) -> None:
        """The command waits from now on."""
        log.info("disruption waits for approval", offer=offer.id, command=offer.command.text)
        await self._publish(
            offer, OFFERED, f"Waits for approval of {offer.id}: {offer.command.text}"
        )

    async def answered(self, offer: Offer, answer: Answer) -> None:
        """Somebody approved or rejected it: the audit record of log and events."""
        word = "Approved" if answer.approved else "Rejected"
        log.info(
            "disruption answered",
            offer=offer.id,
            approved=answer.approved,
            who=answer.who,
            verified=answer.verified,
            why=answer.reason,
            command=offer.command.text,
        )
        more = f": {answer.reason}" if answer.reason else ""
        await self._publish(offer, ANSWERED, f"{word} {offer.id} by {answer.who}{more}")

    async def ended(self, offer: Offer, end: End) -> None:
        """It ended without being started."""
        log.info("offer ended", offer=offer.id, outcome=end.outcome.value, why=end.why)
        more = f": {end.why}" if end.why else ""
        await self._publish(offer, ENDED, f"Nothing done for {offer.id}, {end.outcome.value}{more}")

    def started(self, offer: Offer) -> None:
        """It was approved, is still right, and begins."""
        who = offer.answer.who if offer.answer else ""
        log.info("approved disruption begins", offer=offer.id, who=who, command=offer.command.text)

    def count(self, waiting: Collection[Offer]) -> None:
        """The gauge of what waits, by pool and reason."""
        asked = (
            (pool.name, offer.command.reason)
            for offer in waiting
            for pool in requiring_pools(offer.command)
        )
        self.metrics.approvals_waiting.replace(Counter(asked))

    async def _publish(self, offer: Offer, reason: str, text: str) -> None:
        for pool in requiring_pools(offer.command):
            await self.recorder.publish(
                to_pool(pool), "Normal", reason, text, once=f"{offer.id}{reason}"
            )
