"""The socket that the API server listens on.

What may go wrong: asyncio sends small answers at once only on sockets that name TCP as their protocol. On others each
answer on a connection that is used again waits 40 ms for the client's delayed acknowledgement.
"""

from __future__ import annotations

import socket

BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; what it accepts sends at once. Port 0: a free one. Raises OSError when the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
