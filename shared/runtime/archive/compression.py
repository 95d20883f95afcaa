"""Compression of everything in the archive (zstd)."""

from __future__ import annotations

import zstandard

from shared.errors import InvalidObject

LEVEL = 3
MOST_BYTES = 1 << 30
"""Of one document; a damaged or foreign one must not use up the memory."""


def compress(document: bytes) -> bytes:
    """With its size and a checksum."""
    made: bytes = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(document)
    return made


def decompress(name: str, compressed: bytes) -> bytes:
    """Raises InvalidObject that says which document is damaged."""
    try:
        size = zstandard.frame_content_size(compressed)
        if size < 0 or size > MOST_BYTES:
            raise InvalidObject("damaged, or not of this archive: remove it", field=name)
        found: bytes = zstandard.ZstdDecompressor().decompress(compressed, max_output_size=size)
    except zstandard.ZstdError as error:
        raise InvalidObject(f"damaged ({error}): remove it", field=name) from error
    return found
