"""The catalogue that comes with Dovetail: what can be planned with before any region was read.

``data/catalogue.json.gz`` is made by ``python -m local.aws.catalogue.bundle``: all types of one region, sized with the
usual settings; on-demand prices as listed, spot prices as the local AWS makes them up. It is there for simulations: no
service buys by it.
"""

from __future__ import annotations

import gzip
from importlib.resources import files

from shared.domain.instance_types.types import Catalogue, decode_catalogue, encode_catalogue

BUNDLED_REGION = "us-east-1"
FILE = "catalogue.json.gz"


def bundled_catalogue() -> Catalogue:
    """All types of BUNDLED_REGION. Decoding takes a moment, and nothing is kept."""
    return unpacked((files("shared.cloud.catalogue") / "data" / FILE).read_bytes())


def packed(catalogue: Catalogue) -> bytes:
    """The file's content; the same catalogue gives the same bytes."""
    return gzip.compress(encode_catalogue(catalogue), compresslevel=9, mtime=0)


def unpacked(content: bytes) -> Catalogue:
    """The inverse of ``packed``."""
    return decode_catalogue(gzip.decompress(content))
