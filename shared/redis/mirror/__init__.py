"""The watcher's mirror of the cluster in Redis: hashes to load, a stream to follow."""

from shared.redis.mirror.change import Change, MirrorLost
from shared.redis.mirror.integrity import Position
from shared.redis.mirror.reader import MirrorReader, difference
from shared.redis.mirror.writer import MirrorWriter

__all__ = ["Change", "MirrorLost", "MirrorReader", "MirrorWriter", "Position", "difference"]
