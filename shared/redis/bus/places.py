"""Where Redis is: at an address, at that node of a cluster which has our keys, or where Sentinel says.

The place is looked up for each new connection, so a failover needs no restart. All keys of one Dovetail have one hash
slot, so one node of a cluster has all of them: a new connection asks for a key, and goes on to the node that the answer
MOVED names. A connection whose server turns out to be the wrong one (a former primary, a node that lost the slot)
fails that command as Unavailable, which was not carried out, and is replaced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

import hiredis
from redis import exceptions
from redis.asyncio.connection import Connection, SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

Address = tuple[str, int]
REDIRECTS = 3
"""Nodes of a cluster that one connection tries; the first answer names the right one unless a slot moves meanwhile."""
DEFAULT_PORT, SENTINEL_PORT = 6379, 26379
PROBED_KEY = "event:"
"""A key, relative to the prefix, on which every user may use EXISTS."""
_SENTINEL = "+sentinel"
_OF_SENTINEL = ("sentinel_username", "sentinel_password")
_OF_IAM = "iam_"
_ADDRESS = re.compile(
    r"(\[[0-9A-Fa-f:.]+(%[0-9A-Za-z]+)?\]|[0-9A-Za-z_][0-9A-Za-z_.-]*)(:[1-9][0-9]{0,4})?"
)
"""Underscores: names of containers have them."""
_ELSEWHERE = "non local key"
"""What a node of a cluster says of a script whose keys another node has."""


class Place(Protocol):
    """Where to connect to."""

    async def find(self) -> Address:
        """The address now. Raises redis-py's ConnectionError."""

    def learn(self, address: Address) -> None:
        """The keys are there."""

    def lost(self) -> None:
        """There was no use in the address that ``find`` gave."""


@dataclass
class Servers:
    """One server, or some nodes of a cluster."""

    seeds: list[Address]
    _learned: Address | None = None
    _next: int = 0

    async def find(self) -> Address:
        return self._learned or self.seeds[self._next % len(self.seeds)]

    def learn(self, address: Address) -> None:
        self._learned = address

    def lost(self) -> None:
        if self._learned is None:
            self._next += 1
        self._learned = None


@dataclass
class Sentinels:
    """The primary that Sentinel names, asked anew for each connection."""

    sentinels: list[Address]
    service: str
    options: dict[str, Any]
    """Of the connections to Sentinel."""

    async def find(self) -> Address:
        """The sentinel that answered is the first one next time: another one may cost a timeout."""
        last: exceptions.RedisError = exceptions.ConnectionError("no sentinel")
        for address in list(self.sentinels):
            try:
                sentinel = Sentinel([address], sentinel_kwargs=self.options)  # type: ignore[no-untyped-call]
                async with sentinel:
                    host, port = await sentinel.discover_master(self.service)
            except (exceptions.ConnectionError, exceptions.TimeoutError) as error:
                last = error
            else:
                self.sentinels.remove(address)
                self.sentinels.insert(0, address)
                return str(host), int(port)
        raise last

    def learn(self, address: Address) -> None:
        """A cluster has no Sentinel."""

    def lost(self) -> None:
        """It is asked anew anyway."""


@dataclass(frozen=True)
class Target:
    """A parsed REDIS_URL. ``place`` is None for a Unix socket."""

    place: Place | None
    options: dict[str, Any] = field(repr=False)
    """Of redis-py's connections."""


def parse_target(url: str, timeouts: dict[str, float]) -> Target:
    """``redis[s]://[user:password@]host[:port][,…][/db]``, ``redis[s]+sentinel://…/service[/db]``, or ``unix:``.

    ``timeouts``: options of the connections to Sentinel. Raises ValueError for anything else.
    """
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return Target(None, dict(parse_url(url)))
    hosts = parts.netloc.rpartition("@")[2].split(",")
    if not parts.scheme.endswith(_SENTINEL):
        return Target(Servers([_address(one, DEFAULT_PORT) for one in hosts]), _options(parts))
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("no service of Sentinel in the path")
    scheme = parts.scheme.removesuffix(_SENTINEL)
    options = _options(parts._replace(scheme=scheme, path=f"/{database}"))
    given = dict(parse_qsl(parts.query))
    own: dict[str, Any] = {
        name.removeprefix("sentinel_"): given[name] for name in _OF_SENTINEL if name in given
    }
    tls = {name: value for name, value in options.items() if name.startswith("ssl_")}
    if scheme == "rediss":
        own["ssl"] = True
    addresses = [_address(one, SENTINEL_PORT) for one in hosts]
    own |= {**timeouts, **tls, "retry": Retry(NoBackoff(), 0)}
    return Target(Sentinels(addresses, service, own), options)


def _options(parts: SplitResult) -> dict[str, Any]:
    """redis-py reads all of a URL but several hosts."""
    query = [(name, value) for name, value in parse_qsl(parts.query) if name not in _OF_SENTINEL]
    credentials, separator, hosts = parts.netloc.rpartition("@")
    netloc = f"{credentials}{separator}{hosts.split(',')[0]}"
    options = dict(parse_url(parts._replace(netloc=netloc, query=urlencode(query)).geturl()))
    if any(name.startswith(_OF_IAM) for name in options):
        # Here: to import what signs costs 6 MB, which only such a user needs.
        from shared.redis.iam_login import IamLogin, user_of

        options["credential_provider"] = IamLogin(user_of(options, parts.scheme))
    return options


def is_address(text: str) -> bool:
    """Whether it is HOST or HOST:PORT; an IPv6 address has brackets."""
    return bool(_ADDRESS.fullmatch(text))


def _address(text: str, port: int) -> Address:
    """Raises ValueError for a port that is none, or without a host."""
    if not is_address(text):
        raise ValueError("no HOST:PORT")
    parts = urlsplit(f"//{text}")
    return str(parts.hostname), parts.port or port


class PlacedConnection(Connection):
    """A connection to wherever ``place`` says. ``prefix``: of the keys, empty to ask for none."""

    def __init__(self, *, place: Place, prefix: str, **options: Any) -> None:
        super().__init__(**options)
        self._place = place
        self._prefix = prefix

    async def _connect(self) -> None:
        self.host, self.port = await self._place.find()
        try:
            await super()._connect()  # type: ignore[no-untyped-call]
        except OSError:  # TimeoutError is one
            self._place.lost()
            raise

    async def connect_check_health(
        self, check_health: bool = True, retry_socket_connect: bool = True
    ) -> None:
        for _ in range(REDIRECTS):
            if self.is_connected:
                return
            await super().connect_check_health(check_health, retry_socket_connect)
            await self._go_where_the_keys_are()
        if not self.is_connected:
            raise exceptions.ConnectionError(f"redirected {REDIRECTS} times")

    async def _go_where_the_keys_are(self) -> None:
        if not self._prefix:
            return
        await self.send_command("EXISTS", f"{self._prefix}{PROBED_KEY}", check_health=False)
        try:
            await self.read_response()
        except exceptions.MovedError:
            await self.disconnect()
        except exceptions.ResponseError:
            """Whoever may not ask hears the same of the first command."""

    def pack_command(self, *words: Any) -> list[bytes]:
        """In C; redis-py's asynchronous connections pack in Python, which takes longer than all else of a command."""
        name, *arguments = words
        parts = name.encode().split() if isinstance(name, str) else name.split()
        return [hiredis.pack_command((*parts, *arguments))]

    async def read_response(self, *words: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*words, **options)
        except exceptions.MovedError as error:
            host, port = error.node_addr
            self._place.learn((host or self.host, port))
            self.mark_for_reconnect()  # type: ignore[no-untyped-call]
            raise
        except exceptions.ResponseError as error:
            if isinstance(error, exceptions.ReadOnlyError) or _ELSEWHERE in str(error):
                self._place.lost()
                self.mark_for_reconnect()  # type: ignore[no-untyped-call]
            raise


class PlacedTlsConnection(PlacedConnection, SSLConnection):
    """The same over TLS."""


KINDS: dict[type[Connection], type[PlacedConnection]] = {
    Connection: PlacedConnection,
    SSLConnection: PlacedTlsConnection,
}
