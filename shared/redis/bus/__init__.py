"""The queue between services: Redis Streams that carry notifications, at least once (docs/spec/design.md)."""

from shared.redis.bus.bus import Bus
from shared.redis.bus.connection import connect, shown
from shared.redis.bus.consumer import Consumer, ConsumerSettings
from shared.redis.bus.dead_letters import DeadLetter
from shared.redis.bus.envelope import BadMessage, Envelope, Handler, RetryLater

__all__ = [
    "BadMessage",
    "Bus",
    "Consumer",
    "ConsumerSettings",
    "DeadLetter",
    "Envelope",
    "Handler",
    "RetryLater",
    "connect",
    "shown",
]
