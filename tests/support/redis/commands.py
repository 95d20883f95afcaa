"""Commands of all kinds that the services may send (``shared.redis.rights``), for hypothesis.

Few keys, ids and members, so that commands meet; sometimes a key of another type, a member that is absent, a word too
many or one that is no number.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.redis import scripts
from tests.support.redis.agreement import Command, Reference, Word

_STREAMS, _HASHES, _SETS = [b"x1", b"x2"], [b"h1", b"h2"], [b"e1", b"e2"]
_ZSETS, _LISTS, _STRINGS = [b"z1", b"z2"], [b"l1", b"l2"], [b"s1", b"s2", b"s3"]
_ANY = [*_STREAMS, *_HASHES, *_SETS, *_ZSETS, *_LISTS, *_STRINGS]

Words = st.SearchStrategy[list[Word]]


def _of(*words: bytes) -> st.SearchStrategy[Word]:
    return st.sampled_from(words)


def _key(names: list[bytes]) -> st.SearchStrategy[Word]:
    """Mostly one of ``names``: one in thirty is a key that may hold another type."""
    return st.integers(0, 29).flatmap(
        lambda n: st.sampled_from(names if n else [*_ANY, b"", b"\xff\r\n"])
    )


_FIELD = _of(
    b"a",
    b"b",
    b"c",
    b"",
    b"\x00\xff",
    b"namespace/name-" * 5,
)
_VALUE = _of(b"1", b"2", b"x", b"", b"\r\n", b"v" * 300)
_ID = st.one_of(
    _of(b"1-1", b"1-2", b"2-1", b"3-0", b"5-5", b"9-9", b"2", b"0-0", b"0"),
    st.builds(Reference, st.integers(0, 5)),
)
_RANGE = st.one_of(_ID, _of(b"-", b"+", b"(1-1", b"(2", b"-", b"+"))
_NUMBER = _of(b"0", b"1", b"2", b"3", b"-1", b"-2", b"-3", b"10")
_COUNT = _of(b"1", b"2", b"3", b"100", b"1", b"2", b"0", b"-1")
_SCORE = _of(
    b"1",
    b"2",
    b"2.5",
    b"-3",
    b"1e3",
    b"inf",
    b"-inf",
    b"0.1",
    b"1790000000000",
    b"1790000000.25",
    b"3.0",
)
_BOUND = _of(b"-inf", b"+inf", b"inf", b"1", b"(1", b"2.5", b"(2.5", b"3", b"-3", b"1790000000000")
_GROUP = _of(b"g1", b"g2")
_CONSUMER = _of(b"c1", b"c2", b"c3")
_WRONG = _of(b"nonsense", b"", b"1.5", b"99999999999999999999", b"-", b"COUNT", b"1-x")


def _all(*parts: bytes | st.SearchStrategy[Word] | Words) -> Words:
    """The words one after another; a list of words becomes several."""
    return st.tuples(*(st.just(one) if isinstance(one, bytes) else one for one in parts)).map(
        lambda drawn: [word for one in drawn for word in (one if isinstance(one, list) else [one])]
    )


def _maybe(*parts: bytes | st.SearchStrategy[Word] | Words) -> Words:
    return st.one_of(st.just([]), _all(*parts))


def _some(words: st.SearchStrategy[Word], most: int = 3) -> Words:
    return st.lists(words, min_size=1, max_size=most)


def _pairs(one: st.SearchStrategy[Word], other: st.SearchStrategy[Word]) -> Words:
    flat = st.lists(st.tuples(one, other), min_size=1, max_size=3)
    return flat.map(lambda drawn: [word for pair in drawn for word in pair])


_FIELDS = _pairs(_FIELD, _VALUE)
_x, _h, _e, _z, _l, _s, _any = map(_key, (_STREAMS, _HASHES, _SETS, _ZSETS, _LISTS, _STRINGS, _ANY))
_TRIM = st.one_of(
    _all(b"MAXLEN", _maybe(_of(b"~", b"=")), _of(b"0", b"1", b"2", b"5", b"-1")),
    _all(b"MINID", _maybe(_of(b"~", b"=")), _ID),
)
_STREAM_WORDS = st.one_of(
    _all(b"XADD", _x, _maybe(b"NOMKSTREAM"), _maybe(_TRIM), b"*", _FIELDS),
    _all(b"XADD", _x, b"*", _FIELDS),
    _all(b"XADD", _x, st.one_of(_ID, _of(b"3-*")), _FIELDS),
    _all(b"XLEN", _x),
    _all(b"XTRIM", _x, _TRIM),
    _all(b"XDEL", _x, _some(_ID)),
    _all(b"XRANGE", _x, _RANGE, _RANGE, _maybe(b"COUNT", _COUNT)),
    _all(b"XRANGE", _x, b"-", b"+"),
    _all(b"XREVRANGE", _x, _RANGE, _RANGE, _maybe(b"COUNT", _COUNT)),
    _all(b"XREAD", _maybe(b"COUNT", _COUNT), b"STREAMS", _x, st.one_of(_ID, _of(b"$"))),
    _all(b"XREAD", b"STREAMS", _x, _x, _ID, _ID),
)
_GROUP_WORDS = st.one_of(
    _all(b"XGROUP", b"CREATE", _x, _GROUP, st.one_of(_ID, _of(b"$")), _maybe(b"MKSTREAM")),
    _all(b"XGROUP", b"CREATE", _x, _GROUP, b"0", b"MKSTREAM"),
    _all(b"XGROUP", b"DELCONSUMER", _x, _GROUP, _CONSUMER),
    _all(
        *(b"XREADGROUP", b"GROUP", _GROUP, _CONSUMER, _maybe(b"COUNT", _COUNT), _maybe(b"NOACK")),
        *(b"STREAMS", _x, b">"),
    ),
    _all(b"XREADGROUP", b"GROUP", _GROUP, _CONSUMER, b"COUNT", _COUNT, b"STREAMS", _x, b">"),
    _all(b"XREADGROUP", b"GROUP", _GROUP, _CONSUMER, b"STREAMS", _x, _ID),
    _all(b"XREADGROUP", b"GROUP", _GROUP, _CONSUMER, b"STREAMS", _x, _x, b">", _of(b">", b"0")),
    _all(b"XACK", _x, _GROUP, _some(_ID)),
    _all(b"XPENDING", _x, _GROUP),
    _all(
        *(b"XPENDING", _x, _GROUP, _maybe(b"IDLE", _of(b"0", b"900000")), _RANGE, _RANGE),
        *(_COUNT, _maybe(_CONSUMER)),
    ),
    _all(b"XPENDING", _x, _GROUP, b"-", b"+", b"100", _maybe(_CONSUMER)),
    _all(
        *(b"XCLAIM", _x, _GROUP, _CONSUMER, _of(b"0", b"900000"), _some(_ID)),
        *(_maybe(b"IDLE", _of(b"0", b"3600000")), _maybe(b"RETRYCOUNT", _of(b"7"))),
        *(_maybe(b"FORCE"), _maybe(b"JUSTID")),
    ),
    _all(b"XCLAIM", _x, _GROUP, _CONSUMER, b"0", _some(_ID)),
    _all(
        *(b"XAUTOCLAIM", _x, _GROUP, _CONSUMER, _of(b"0", b"900000"), _ID),
        *(_maybe(b"COUNT", _COUNT), _maybe(b"JUSTID")),
    ),
    _all(b"XAUTOCLAIM", _x, _GROUP, _CONSUMER, b"0", b"0-0", _maybe(b"COUNT", _COUNT)),
    _all(b"XINFO", b"GROUPS", _x),
    _all(b"XINFO", b"STREAM", _x),
    _all(b"XINFO", b"CONSUMERS", _x, _GROUP),
)
_EXPIRY = st.one_of(
    _all(b"EX", b"100"), _all(b"PX", b"100000"), _all(b"PX", b"0"), _all(b"KEEPTTL")
)
_KEY_WORDS = st.one_of(
    _all(b"EXISTS", _some(_any)),
    _all(b"DEL", _some(_any, 2)),
    _all(b"UNLINK", _some(_any, 2)),
    _all(b"RENAME", _any, _any),
    _all(b"EXPIRE", _any, _of(b"100", b"-1", b"100")),
    _all(b"PEXPIRE", _any, _of(b"100000", b"0", b"100000")),
    _all(b"PERSIST", _any),
    _all(b"TTL", _any),
    _all(b"PTTL", _any),
    _all(b"TYPE", _any),
    _all(b"PING", _maybe(_VALUE)),
    _all(b"ECHO", _VALUE),
    _all(b"TIME"),
    _all(b"SELECT", _of(b"0")),
    _all(b"DBSIZE"),
)
_STRING_WORDS = st.one_of(
    _all(b"SET", _s, _VALUE),
    _all(b"SET", _any, _VALUE, _maybe(_EXPIRY), _maybe(_of(b"NX", b"XX")), _maybe(b"GET")),
    _all(b"GET", _s),
    _all(b"MGET", _some(_any)),
)
_HASH_WORDS = st.one_of(
    _all(b"HSET", _h, _FIELDS),
    _all(b"HDEL", _h, _some(_FIELD)),
    _all(b"HGET", _h, _FIELD),
    _all(b"HINCRBY", _h, _FIELD, _NUMBER),
    _all(b"HINCRBY", _h, _FIELD, _of(b"9223372036854775807", b"-9223372036854775808")),
    _all(b"HLEN", _h),
    _all(b"HGETALL", _h),
)
_SET_WORDS = st.one_of(
    _all(b"SADD", _e, _some(_FIELD)),
    _all(b"SMEMBERS", _e),
)
_LIST_WORDS = st.one_of(
    _all(b"LPUSH", _l, _some(_VALUE)),
    _all(b"LREM", _l, _NUMBER, _VALUE),
    _all(b"LTRIM", _l, _NUMBER, _NUMBER),
    _all(b"LRANGE", _l, _NUMBER, _NUMBER),
)
_ZSET_WORDS = st.one_of(
    _all(
        b"ZADD",
        _z,
        _maybe(_of(b"NX", b"XX")),
        _maybe(_of(b"GT", b"LT")),
        _maybe(b"CH"),
        _pairs(_SCORE, _FIELD),
    ),
    _all(b"ZADD", _z, _pairs(_SCORE, _FIELD)),
    _all(b"ZREM", _z, _some(_FIELD)),
    _all(b"ZCARD", _z),
    _all(b"ZSCORE", _z, _FIELD),
    _all(b"ZRANGE", _z, _NUMBER, _NUMBER, _maybe(b"WITHSCORES")),
    _all(
        b"ZRANGEBYSCORE",
        _z,
        _BOUND,
        _BOUND,
        _maybe(b"WITHSCORES"),
        _maybe(b"LIMIT", _NUMBER, _NUMBER),
    ),
    _all(b"ZREMRANGEBYRANK", _z, _NUMBER, _NUMBER),
    _all(b"ZREMRANGEBYSCORE", _z, _BOUND, _BOUND),
)
_TRANSACTION_WORDS = st.one_of(_all(b"MULTI"), _all(b"EXEC"), _all(b"EXEC"), _all(b"DISCARD"))
_PLAIN = st.one_of(
    *(_STREAM_WORDS, _STREAM_WORDS, _GROUP_WORDS, _GROUP_WORDS, _GROUP_WORDS),
    *(_KEY_WORDS, _STRING_WORDS, _HASH_WORDS, _SET_WORDS, _LIST_WORDS, _ZSET_WORDS),
)


@st.composite
def _damaged(draw: st.DrawFn) -> list[Word]:
    """A command with one word too many, too few, or another one in its place."""
    words = draw(_PLAIN)
    at = draw(st.integers(1, len(words)))
    return [
        *words[:at],
        *draw(st.one_of(st.just([]), _all(_WRONG))),
        *words[at + draw(st.integers(0, 1)) :],
    ]


WELL_FORMED: st.SearchStrategy[Command] = (
    st.integers(0, 39).flatmap(lambda n: _PLAIN if n else _TRANSACTION_WORDS).map(tuple)
)
COMMANDS: st.SearchStrategy[Command] = (
    st.integers(0, 19).flatmap(lambda n: WELL_FORMED if n else _damaged()).map(tuple)
)
"""Some of them with too many words, too few or wrong ones."""
FINAL: list[Command] = [
    *((b"EXISTS", key) for key in _ANY),
    *((b"TYPE", key) for key in _ANY),
    *((b"XRANGE", key, b"-", b"+") for key in _STREAMS),
    *((b"XINFO", b"STREAM", key) for key in _STREAMS),
    *((b"XINFO", b"GROUPS", key) for key in _STREAMS),
    *((b"XINFO", b"CONSUMERS", key, group) for key in _STREAMS for group in (b"g1", b"g2")),
    *(
        (b"XPENDING", key, group, b"-", b"+", b"100")
        for key in _STREAMS
        for group in (b"g1", b"g2")
    ),
    *((b"LRANGE", key, b"0", b"-1") for key in _LISTS),
    *((b"ZRANGE", key, b"0", b"-1", b"WITHSCORES") for key in (*_ZSETS, b"delayed")),
    *((b"MGET", key) for key in _STRINGS),
]
"""Read everything at the end."""


_PUBLISHED = _all(
    b"EVAL",
    scripts.PUBLISH,
    b"2",
    _x,
    _of(b"s1", b"s2", b"s3"),
    _of(b"3", b"50"),
    b"60000",
    _FIELDS,
)
_SCRIPT_WORDS = st.one_of(
    _PUBLISHED,
    _PUBLISHED,
    _all(b"EVAL", scripts.TRIM, b"1", _x),
    _all(b"EVAL", scripts.PUT, b"1", b"delayed", b"4", _of(b"0", b"100000"), _FIELDS),
    _all(b"EVAL", scripts.MOVE, b"2", b"delayed", _x, b"2"),
    _all(b"EVAL", scripts.ADD_ONCE, b"2", _x, _z, _FIELD, b"3", b"2", b"100000", _FIELDS),
    _all(b"EVAL", scripts.DELETE_CONSUMER, b"2", _x, _s, _GROUP, _CONSUMER, _of(b"0", b"900000")),
)
SCRIPTED: st.SearchStrategy[Command] = st.one_of(_SCRIPT_WORDS, _GROUP_WORDS, _STREAM_WORDS).map(
    tuple
)
"""The scripts of the bus among commands on the same streams."""
