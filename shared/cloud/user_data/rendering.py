"""User data of every image family (LCH-30..36).

EC2 accepts 16 KiB before base64. Different user data needs a different launch template, so the same bootstrap must
always give the same text.
"""

from __future__ import annotations

from collections.abc import Callable

from shared.cloud.user_data import amazon_linux, bottlerocket, windows
from shared.cloud.user_data.bootstrap import USER_DATA_FIELD, Bootstrap
from shared.cloud.user_data.checking import check
from shared.errors import InvalidObject

LIMIT_BYTES = 16 * 1024
TOO_LARGE = "UserDataSizeLimitExceeded"
CUSTOM = "Custom"
_FAMILIES: dict[str, Callable[[Bootstrap], str]] = {
    "AL2": amazon_linux.al2,
    "AL2023": amazon_linux.al2023,
    "Bottlerocket": bottlerocket.render,
    "Ubuntu": amazon_linux.al2,
    "Windows2019": windows.render,
    "Windows2022": windows.render,
    "Windows2025": windows.render,
    CUSTOM: lambda bootstrap: bootstrap.user_data,
}


def render(family: str, bootstrap: Bootstrap) -> str:
    """The user data of a machine of this family, before base64.

    Raises InvalidObject naming spec.userData (the context of one that is too large has a ``reason``, EC-17),
    spec.amiFamily, or the field of a value that cannot be passed safely to a node.
    """
    if family not in _FAMILIES:
        known = ", ".join(_FAMILIES)
        raise InvalidObject(f"{family} is unknown; use one of {known}", field="spec.amiFamily")
    if family != CUSTOM:
        check(bootstrap)
    return written(family, bootstrap)


def written(family: str, bootstrap: Bootstrap) -> str:
    """As ``render``, for values that are checked already: only quoting separates them here. Raises InvalidObject."""
    _size(bootstrap.user_data, "has")
    text = _FAMILIES[family](bootstrap)
    _size(text, "makes, with what the node must know,")
    return text


def _size(text: str, how: str) -> None:
    """Check the size limit (LCH-36). Raises InvalidObject."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidObject(f"is not Unicode text: {error}", field=USER_DATA_FIELD) from None
    if size > LIMIT_BYTES:
        raise InvalidObject(
            f"{how} {size} bytes, EC2 accepts {LIMIT_BYTES}; download most of it at boot",
            field=USER_DATA_FIELD,
            reason=TOO_LARGE,
        )
