"""The watcher's mirror of the cluster in Redis: hashes to load, a stream to follow."""

from shared.mirror.change import Change, MirrorLost
from shared.mirror.integrity import Position
from shared.mirror.reader import MirrorReader, difference
from shared.mirror.writer import MirrorWriter

__all__ = ["Change", "MirrorLost", "MirrorReader", "MirrorWriter", "Position", "difference"]
