"""Hashes, sets and lists: plain containers with types of their own, so that a key's type is its value's type."""

from __future__ import annotations


class Hash(dict[bytes, bytes]):
    """Field -> value, in the order in which the fields came."""


class Set(dict[bytes, None]):
    """The members, in the order in which they came: the order of a ``set`` would depend on PYTHONHASHSEED."""


class List(list[bytes]):
    """Never changed in place: commands put a new one, because the services' lists are short."""
