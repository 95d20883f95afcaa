"""Dovetail's error family. Adapters raise these; nobody above an adapter sees a client library's error.

DovetailError
├── ConfigurationError      the operator must change a setting; the message names it and the fix
├── InvalidObject           a user's object is wrong; carries the field path
├── TransientError          try again later
│   ├── Throttled           the other side asked for less (EC2 RequestLimitExceeded, 429)
│   ├── Unreachable         no answer at all; the outcome of a mutating call is unknown
│   └── Unavailable         answered, but cannot serve now (5xx)
├── NotFound                the object or instance does not exist (now)
├── AlreadyExists           create of a name that exists
├── Conflict                compare-and-set lost, or a UID precondition failed
├── Gone                    a watch or list position expired (410): list again
├── EvictionBlocked         a disruption budget refuses this eviction now (429)
├── Unauthorized            credentials or permissions are missing
├── InsufficientCapacity    EC2 has none of the requested offerings
└── LaunchRejected          EC2 refused the request for good; a new attempt needs other parameters
"""

from __future__ import annotations


class DovetailError(Exception):
    """Root of the family. ``context`` holds values for log keys, never secrets."""

    def __init__(self, message: str, **context: object) -> None:
        super().__init__(message)
        self.message = message
        self.context = context


class ConfigurationError(DovetailError):
    """A setting is missing or wrong."""


class InvalidObject(DovetailError):
    """An object failed validation. ``field`` is a path such as ``spec.requirements[0].operator``."""

    def __init__(self, message: str, *, field: str, **context: object) -> None:
        super().__init__(f"{field}: {message}", **context)
        self.field = field


class TransientError(DovetailError):
    """Repeating the call later may succeed."""


class Throttled(TransientError):
    """The other side limits our rate."""


class Unreachable(TransientError):
    """No answer. A mutating call may or may not have happened: repeat with the same token."""


class Unavailable(TransientError):
    """The other side answered that it cannot serve now."""


class NotFound(DovetailError):
    """Nothing by that name."""


class AlreadyExists(DovetailError):
    """Something by that name exists already."""


class Conflict(DovetailError):
    """The object changed since it was read, or is not the one that was meant."""


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
