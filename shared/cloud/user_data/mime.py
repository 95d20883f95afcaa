"""User data as a MIME multipart document: the user's parts first, Dovetail's part last, so that it takes precedence
(LCH-30..32).

Parts are written verbatim (the ``email`` generator would change line ends and lines that start with ``From ``); the
user's parts are read with the ``email`` parser. What may go wrong: a document that starts like MIME and has no parts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from email import message_from_string

from shared.cloud.user_data.bootstrap import USER_DATA_FIELD
from shared.errors import InvalidObject

BOUNDARY = "//"
SHELL = 'text/x-shellscript; charset="us-ascii"'
SHELL_UTF8 = 'text/x-shellscript; charset="utf-8"'
NODE_CONFIG = "application/node.eks.aws"
MOST_MULTIPARTS = 50
_TOO_DEEP = "nests MIME parts too deeply; write them as one flat list"
_KIND = re.compile(r"""^kind:[ \t]*["']?NodeConfig["']?[ \t]*(#.*)?\r?$""", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """One MIME part: header lines without line ends, and the body verbatim."""

    headers: tuple[str, ...]
    body: str


def document(user_data: str, ours: Part) -> str:
    """A MIME document with the parts of ``user_data``, then ``ours``. Raises InvalidObject."""
    parts = [*_user_parts(user_data), ours]
    boundary = _boundary(parts)
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    for part in parts:
        lines += [f"--{boundary}", *part.headers, "", part.body]
    return "\n".join([*lines, f"--{boundary}--", ""])


def shell_part(script: str) -> Part:
    """A script that cloud-init runs."""
    return Part((f"Content-Type: {SHELL if script.isascii() else SHELL_UTF8}",), script)


def node_config_part(text: str) -> Part:
    """A NodeConfig document, which nodeadm reads."""
    return Part((f"Content-Type: {NODE_CONFIG}",), text)


def _user_parts(text: str) -> list[Part]:
    """The parts of a MIME document, else the text as one part (LCH-31)."""
    if not text.strip():
        return []
    if text.lstrip().lower().startswith(("mime-version:", "content-type: multipart/")):
        return _mime_parts(text.lstrip())
    return [node_config_part(text) if _is_node_config(text) else shell_part(text)]


def _mime_parts(text: str) -> list[Part]:
    if text.lower().count("multipart/") > MOST_MULTIPARTS:
        raise _refused(_TOO_DEEP)
    try:
        message = message_from_string(text)
        multipart = message.is_multipart()
        walked = [part for part in message.walk() if not part.is_multipart()]
    except RecursionError:
        raise _refused(_TOO_DEEP) from None
    if not multipart:
        raise _refused("starts like a MIME document but has no parts; check its boundary")
    return [
        Part(tuple(f"{name}: {value}" for name, value in part.items()), str(part.get_payload()))
        for part in walked
    ]


def _refused(why: str) -> InvalidObject:
    return InvalidObject(why, field=USER_DATA_FIELD)


def _is_node_config(text: str) -> bool:
    """Whether the text has the kind NodeConfig. It is not parsed: a YAML parser may need a minute for such a size."""
    return not text.startswith("#!") and _KIND.search(text) is not None


def _boundary(parts: Sequence[Part]) -> str:
    """``//``, or a longer boundary when a user's part contains that line."""
    text = "".join(part.body for part in parts)
    if f"--{BOUNDARY}" not in text:
        return BOUNDARY
    return f"{BOUNDARY}{hashlib.sha256(text.encode()).hexdigest()[:32]}"
