"""Lists in pages. Every page shows the state at the first page's revision.

A continue token holds that revision and the last returned key. When the log of changes no longer reaches back to the
revision, the answer is 410 Expired and the client must list again.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import orjson

from local.cluster.api.errors import ApiError, bad_request, expired
from local.cluster.storage.collection import Collection, Key, key_of
from local.cluster.storage.selectors import Predicate
from local.cluster.storage.watches import Document, Stored

TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You must start a new list without the continue parameter."
)


@dataclass(frozen=True)
class Token:
    """The start of the next page: after ``key``, in the state at ``revision``."""

    revision: int
    key: Key

    def text(self) -> str:
        """The opaque form that clients receive."""
        return base64.urlsafe_b64encode(orjson.dumps([self.revision, *self.key])).decode()

    @classmethod
    def parse(cls, text: str) -> Token:
        """Read a token. Raises ApiError 400 for a token that this server did not make."""
        try:
            revision, namespace, name = orjson.loads(base64.urlsafe_b64decode(text))
            return cls(int(revision), (str(namespace), str(name)))
        except (binascii.Error, ValueError, TypeError) as error:
            raise bad_request("continue key is not valid: start a new list without it") from error


@dataclass(frozen=True)
class Page:
    """Objects and the list's metadata."""

    objects: list[Stored]
    metadata: Document


def page(
    collection: Collection,
    namespace: str,
    matches: Predicate | None,
    revision: int,
    limit: int,
    token: Token | None,
) -> Page:
    """Up to ``limit`` objects (0: all). Raises ApiError 410 for a token that is too old."""
    if token:
        revision = token.revision
    found = _matching(_after(collection, namespace, token), matches)
    metadata: Document = {"resourceVersion": str(revision)}
    if not limit:
        return Page(list(found), metadata)
    iterator = iter(found)
    objects = list(islice(iterator, limit))
    left = list(iterator)
    if left:
        metadata["continue"] = Token(revision, key_of(objects[-1].document)).text()
        if matches is None:
            metadata["remainingItemCount"] = len(left)
    return Page(objects, metadata)


def _after(collection: Collection, namespace: str, token: Token | None) -> Iterable[Stored]:
    if token is None:
        return collection.scan(namespace)
    try:
        unchanged = collection.log.after(token.revision) == collection.log.end
        past = (
            collection.scan(namespace)
            if unchanged
            else collection.scan_at(token.revision, namespace)
        )
    except ApiError as error:
        raise expired(TOO_OLD) from error
    return (stored for stored in past if key_of(stored.document) > token.key)


def _matching(objects: Iterable[Stored], matches: Predicate | None) -> Iterable[Stored]:
    if matches is None:
        return objects
    return (stored for stored in objects if matches(stored.document))
