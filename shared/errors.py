"""Dovetail's exceptions. Adapters raise these; errors of client libraries do not leave the adapters.

All are kinds of DovetailError. ConfigurationError: the operator must change a setting; the message names it and the
fix. InvalidObject: a user's object is wrong; it has the field's path. TransientError: try again later; its kinds are
Throttled (the server limits the request rate), Unreachable (no response, so the outcome of a mutating call is unknown)
and Unavailable (the server cannot serve the request now). Each of the others names what a server said.
"""

from __future__ import annotations


class DovetailError(Exception):
    """Base class of all our exceptions. ``context`` holds values for log keys, never secrets."""

    def __init__(self, message: str, **context: object) -> None:
        super().__init__(message)
        self.message = message
        self.context = context


class ConfigurationError(DovetailError):
    """A setting is missing or wrong."""


class InvalidObject(DovetailError):
    """An object failed validation. ``field`` is a path such as ``spec.requirements[0].operator``; ``fault`` is the
    message without it."""

    def __init__(self, message: str, *, field: str, **context: object) -> None:
        super().__init__(f"{field}: {message}", **context)
        self.field, self.fault = field, message


class TransientError(DovetailError):
    """Repeating the call later may succeed."""


class Throttled(TransientError):
    """The server limits our request rate."""


class Unreachable(TransientError):
    """The server did not respond. A mutating call may have taken effect: repeat it with the same token."""


class Unavailable(TransientError):
    """The server responded that it cannot serve the request now."""


class NotFound(DovetailError):
    """No object or instance with this name exists."""


class AlreadyExists(DovetailError):
    """An object with this name exists already."""


class Conflict(DovetailError):
    """The object changed since it was read, or has another UID than expected."""


class Gone(DovetailError):
    """A list or watch position is too old."""


class EvictionBlocked(DovetailError):
    """A PodDisruptionBudget allows no eviction of this pod now."""


class Unauthorized(DovetailError):
    """The caller may not do this."""


class InsufficientCapacity(DovetailError):
    """No requested offering has capacity."""


class LaunchRejected(DovetailError):
    """EC2 refused a launch request and would refuse it again unchanged."""
