"""Dovetail's exceptions. Adapters raise these; errors of client libraries do not leave the adapters.

DovetailError ├── ConfigurationError      the operator must change a setting; the message names it and the fix ├──
InvalidObject           a user's object is wrong; carries the field path ├── TransientError          try again later │
├── Throttled           the server limits the request rate (EC2 RequestLimitExceeded, 429) │   ├── Unreachable
no response; the outcome of a mutating call is unknown │   └── Unavailable         a response that the server cannot
serve the request now (5xx) ├── NotFound                the object or instance does not exist ├── AlreadyExists
an object with the name exists ├── Conflict                the object changed since it was read, or a UID precondition
failed ├── Gone                    a watch or list position expired (410): list again ├── EvictionBlocked         a
disruption budget refuses this eviction now (429) ├── Unauthorized            credentials or permissions are missing ├──
InsufficientCapacity    EC2 has none of the requested offerings └── LaunchRejected          EC2 refused the request
permanently; a new attempt needs other parameters
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
