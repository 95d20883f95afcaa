"""The status server of a service: its endpoints, and its listeners with their limits."""

from shared.runtime.status.connections import PROBE_LIMITS, STATUS_LIMITS, Limits
from shared.runtime.status.pages import mount, probes
from shared.runtime.status.server import Listener, server_loop

__all__ = ["PROBE_LIMITS", "STATUS_LIMITS", "Limits", "Listener", "mount", "probes", "server_loop"]
