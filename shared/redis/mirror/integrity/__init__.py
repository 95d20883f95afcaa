"""How readers of the mirror notice entries that the watcher did not write, and how far the watcher's watches are."""

from shared.redis.mirror.integrity.contents import Contents
from shared.redis.mirror.integrity.digests import Digester
from shared.redis.mirror.integrity.heartbeats import Heartbeat, Position, seal
from shared.redis.mirror.integrity.verification import Verification

__all__ = ["Contents", "Digester", "Heartbeat", "Position", "Verification", "seal"]
