"""Where SQS messages go that cannot be read: into the dead letters of the stream ``interruptions``, each once.

What may go wrong: the service is killed between keeping a message and deleting it from the queue. The message comes
again and is recognised by its id and body.
"""

from __future__ import annotations

from hashlib import sha256

from services.interruption.sources.sqs import Bury
from shared.redis.bus.dead_letters import DeadLetters

GROUP = "interruption"


def keeping(dead_letters: DeadLetters) -> Bury:
    """A function that keeps one message among ``dead_letters``."""

    async def bury(message: str, body: bytes, error: Exception) -> None:
        await dead_letters.add(
            source=f"sqs/{message}",
            group=GROUP,
            fields={b"body": body},
            deliveries=1,
            error=error,
            once=f"{message}/{sha256(body).hexdigest()}",
        )

    return bury
