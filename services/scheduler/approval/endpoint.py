"""``POST /approvals/ID``: approve or reject a command that waits. ``GET /approvals``: all of them, with names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from services.scheduler.approval.approvals import Approvals
from services.scheduler.approval.documents import document, summary
from services.scheduler.approval.pages import ApprovalPages
from shared.concurrency.clock import Clock
from shared.disruption.approval import Answer as Given
from shared.disruption.approval import Offer, Outcome
from shared.errors import TransientError
from shared.runtime.services import CALLER, Answer, Question, json_answer

PATH = "/approvals"
MOST_BYTES = 4096
LONGEST_TEXT = 500
NOT_KNOWN = "the API server does not say at the moment whose token this is; send it again"
BODY: Mapping[str, Any] = {
    "type": "object",
    "required": ["approved"],
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string", "maxLength": LONGEST_TEXT},
        "user": {"type": "string", "maxLength": LONGEST_TEXT},
    },
}


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    approved: bool
    reason: str = ""
    user: str = ""
    """Who answers, where no token says so."""


@dataclass
class ApprovalEndpoint:
    """Takes answers; whoever leads starts what was approved."""

    approvals: Approvals
    clock: Clock

    def pages(self) -> list[Question]:
        """Of signed links, where they are sent."""
        webhook = self.approvals.webhook
        if webhook is None:
            return []
        return ApprovalPages(self.approvals, webhook.links, self.clock, webhook.who).questions()

    async def listed(self, body: bytes, query: Mapping[str, str]) -> Answer:
        """What waits and what ended, with who answered; 503 while Redis does not answer."""
        del body, query
        try:
            return json_answer(200, await self.approvals.report())
        except TransientError as error:
            return json_answer(503, {"error": f"Redis does not answer: {error.message}"})

    async def answer(self, body: bytes, query: Mapping[str, str]) -> Answer:
        """404 for an unknown offer, 409 for one that was answered or has ended, 400 for a wrong body, 503 while Redis
        or the API server does not answer."""
        try:
            given = msgspec.json.decode(body, type=_Body)
        except msgspec.MsgspecError as error:
            text = f'the body is not {{"approved": true, "reason": "", "user": ""}}: {error}'
            return json_answer(400, {"error": text[:LONGEST_TEXT]})
        caller = query.get(CALLER)
        if caller == "":  # else the name that the client gives would count as verified
            return json_answer(503, {"error": NOT_KNOWN})
        who = (caller or given.user or "unknown")[:LONGEST_TEXT]
        reason = given.reason[:LONGEST_TEXT]
        answer = Given(given.approved, who, self.clock.now(), reason, caller is not None)
        try:
            offer, is_new = await self.approvals.answer(query.get("id", ""), answer)
        except TransientError as error:
            return json_answer(503, {"error": f"Redis does not take the answer: {error.message}"})
        if offer is None:
            text = f"no command with the id {query.get('id', '')[:100]} waits for approval"
            return json_answer(404, {"error": text})
        if not is_new:
            return json_answer(409, {"error": _too_late(offer), "offer": summary(offer)})
        return json_answer(200, document(offer))


def _too_late(offer: Offer) -> str:
    if offer.answer is not None and offer.outcome is not Outcome.EXPIRED:
        word = "approved" if offer.answer.approved else "rejected"
        return f"{offer.id} was {word} by {offer.answer.who} already"
    return f"{offer.id} has {'expired' if offer.ended is None else offer.outcome.value}"
