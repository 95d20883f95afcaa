"""``python -IS probe.py PATH [PORT]``: exit code 0 when this container answers PATH with status 200.

For health checks of container engines, which run it often: a plain socket, and no packages. It is a file because
Podman splits the arguments of a health check at blanks.
"""

import os
import socket
import sys

if __name__ == "__main__":
    port = int(sys.argv[2] if sys.argv[2:] else os.environ.get("STATUS_PORT", "8080"))
    with socket.create_connection(("127.0.0.1", port), 3) as connection:
        connection.sendall(f"GET {sys.argv[1]} HTTP/1.0\r\n\r\n".encode())
        sys.exit(b" 200 " not in connection.recv(64))
