"""The bodies of the scripts that the services run on Redis."""

from __future__ import annotations

from shared.redis.bus import dead_letters, delay, group, publisher, trim
from shared.redis.mirror import reader
from shared.redis.mirror.integrity import scripts as writer


def _body(script: str) -> bytes:
    return script.encode()


PUBLISH = _body(publisher._PUBLISH)
TRIM = _body(trim._TRIM)
PUT = _body(delay._PUT)
MOVE = _body(delay._MOVE).replace(b"return math.max(0, first[2] - now)", b"return 0")
"""Without the time that is left, which two servers count from two moments."""
ADD_ONCE = _body(dead_letters._ADD_ONCE)
DELETE_CONSUMER = _body(group._DELETE_CONSUMER)
LOAD = _body(reader._LOAD)
COMMIT, APPLY, HEARTBEAT = map(_body, (writer.COMMIT, writer.APPLY, writer.HEARTBEAT))
