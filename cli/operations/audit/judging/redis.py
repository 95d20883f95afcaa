"""Redis: streams and dead letters are bounded, messages are handled, and the mirror equals the API server."""

from __future__ import annotations

from collections.abc import Iterator

from cli.operations.audit.finding import Finding, Graces
from cli.operations.audit.picture import Queue, Reading
from shared.redis.bus.dead_letters import DEAD_LIMIT
from shared.redis.bus.delay import DELAY_LIMIT
from shared.redis.bus.publisher import STREAM_LIMIT
from shared.redis.mirror.writer import STREAM_LIMIT as MIRROR_STREAM_LIMIT
from shared.redis.streams import CLUSTER

APPROXIMATION = 1.1
"""Redis trims whole nodes of a stream: it may be a tenth longer than its limit."""
WORDS = {
    "missing": "it is not in the mirror",
    "surplus": "the mirror has it, and the API server has not",
    "stale": "the mirror has an older state of it",
}


def queues_are_bounded(reading: Reading, _: Graces) -> list[Finding]:
    """Streams, dead letters and messages that are put off, above their bounds."""
    sizes = [size for queue in reading.queues for size in _sizes(queue)]
    if reading.mirror is not None:
        sizes.append((f"Stream/{CLUSTER}", "entries", reading.mirror.length, MIRROR_STREAM_LIMIT))
    return [
        Finding(subject, f"{size} {what}, at most {most}", "dovetail status; dovetail doctor")
        for subject, what, size, most in sizes
        if size > most * APPROXIMATION
    ]


def _sizes(queue: Queue) -> Iterator[tuple[str, str, int, int]]:
    """(subject, what, how many, bound)."""
    subject = f"Stream/{queue.stream}"
    yield subject, "entries", queue.length, STREAM_LIMIT
    yield subject, "dead letters", queue.dead, DEAD_LIMIT
    yield subject, "messages that are put off", queue.delayed, DELAY_LIMIT


def messages_are_handled(reading: Reading, graces: Graces) -> list[Finding]:
    """Groups whose oldest message is too old."""
    return [
        Finding(
            f"Stream/{queue.stream}",
            f"the {group} has not handled its oldest message",
            f"dovetail logs {group}; dovetail status",
            since=at,
            version=group,
        )
        for queue in reading.queues
        for group, at in sorted(queue.oldest.items())
        if reading.at - at > graces.message
    ]


def mirror_is_fresh(reading: Reading, graces: Graces) -> list[Finding]:
    """The watcher writes it: it is whole, and its heartbeat is young."""
    mirror = reading.mirror
    if mirror is None:
        return []
    if not mirror.complete or mirror.age_seconds is None:
        why = "it is not there, or not complete"
        return [Finding("Mirror", why, "dovetail logs watcher", twice=True)]
    if mirror.age_seconds <= graces.heartbeat:
        return []
    since = reading.at - mirror.age_seconds
    return [Finding("Mirror", "its writer is silent", "dovetail logs watcher", since=since)]


def mirror_is_equal(reading: Reading, _: Graces) -> list[Finding]:
    """Entries that are not as the API server has them."""
    differences = reading.mirror.differences if reading.mirror is not None else ()
    next_step = "dovetail logs watcher; restart it: it writes the mirror anew"
    return [
        Finding(one.entry, WORDS[one.what], next_step, twice=True, version=one.version)
        for one in differences
    ]
