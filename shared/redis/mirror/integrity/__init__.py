"""How readers of the mirror detect entries that the watcher did not write, and learn the positions of its watches."""

from shared.redis.mirror.integrity.contents import Contents
from shared.redis.mirror.integrity.digests import Digester
from shared.redis.mirror.integrity.heartbeats import Heartbeat, Position, seal
from shared.redis.mirror.integrity.verification import Verification

__all__ = ["Contents", "Digester", "Heartbeat", "Position", "Verification", "seal"]
