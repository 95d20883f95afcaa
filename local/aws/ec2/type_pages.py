"""Writes a page of DescribeInstanceTypes: moto's serializer makes five checks on each of 100,000 elements, which takes
three seconds of the emulator's start.

It supports only the types of these rows: structures, lists, texts, numbers and booleans, with the service model's
names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from moto.core.utils import get_service_model

from local.aws.ec2.xml_answers import NAMESPACE, REQUEST_ID


def instance_type_page(rows: Sequence[Mapping[str, Any]], token: str | None) -> str:
    """The body of the answer. ``rows``: instance types from moto, with the service model's names."""
    operation = get_service_model("ec2").operation_model("DescribeInstanceTypes")
    answer = {"InstanceTypes": rows, "NextToken": token}
    inner = _members(answer, operation.output_shape)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<DescribeInstanceTypesResponse xmlns="{NAMESPACE}">{inner}'
        f"<requestId>{REQUEST_ID}</requestId></DescribeInstanceTypesResponse>"
    )


def _members(value: Mapping[str, Any], shape: Any) -> str:
    found = []
    for name, member in shape.members.items():
        if (part := value.get(name)) is not None:
            tag = member.serialization.get("name", name)
            found.append(f"<{tag}>{_content(part, member)}</{tag}>")
    return "".join(found)


def _content(value: Any, shape: Any) -> str:
    if shape.type_name == "structure":
        return _members(value, shape)
    if shape.type_name == "list":
        tag = shape.member.serialization.get("name", "member")
        return "".join(f"<{tag}>{_content(one, shape.member)}</{tag}>" for one in value)
    if shape.type_name == "boolean":
        return "true" if value else "false"
    return escape(str(value))
