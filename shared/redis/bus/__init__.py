"""The queue between services: Redis Streams that carry notifications, at least once (docs/spec/design.md)."""

from shared.redis.bus.attempt import AttemptLimits
from shared.redis.bus.bus import Bus, GroupDepth, StreamDepth
from shared.redis.bus.connection import connect, key_prefix, shown
from shared.redis.bus.consumer import Consumer, ConsumerSettings
from shared.redis.bus.dead_letters import DeadLetter
from shared.redis.bus.envelope import (
    BODY_LIMIT_BYTES,
    SUPPORTED_VERSION,
    BadMessage,
    Envelope,
    Handler,
    RetryLater,
)

__all__ = [
    "BODY_LIMIT_BYTES",
    "SUPPORTED_VERSION",
    "AttemptLimits",
    "BadMessage",
    "Bus",
    "Consumer",
    "ConsumerSettings",
    "DeadLetter",
    "Envelope",
    "GroupDepth",
    "Handler",
    "RetryLater",
    "StreamDepth",
    "connect",
    "key_prefix",
    "shown",
]
