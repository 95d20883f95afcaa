"""The API server's listening socket.

asyncio sends small answers at once only on sockets whose protocol is explicitly TCP. On other sockets each answer on a
reused connection waits 40 ms for the client's delayed acknowledgement.
"""

from __future__ import annotations

import socket

BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A bound socket whose connections send without delay. Port 0 chooses a free port. Raises OSError when the port is
    taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
