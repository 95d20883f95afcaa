"""Our page of instance types says what moto's own serializer says.

moto is imported by these tests alone, as in ``test_moto_speed``.
"""

from __future__ import annotations

from typing import Any

import pytest
from botocore.parsers import EC2QueryParser


@pytest.fixture(scope="module")
def operation() -> Any:
    from moto.core.utils import get_service_model

    return get_service_model("ec2").operation_model("DescribeInstanceTypes")


def read(body: str, operation: Any) -> dict[str, object]:
    answer = {"status_code": 200, "headers": {}, "body": body.encode()}
    parsed = EC2QueryParser().parse(answer, operation.output_shape)
    del parsed["ResponseMetadata"]
    return dict(parsed)


def test_a_client_reads_the_same_from_our_page_as_from_motos(operation: Any) -> None:
    from moto.core.serialize import EC2Serializer
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    from local.aws.ec2.type_pages import instance_type_page

    rows = [INSTANCE_TYPES[name] for name in sorted(INSTANCE_TYPES)[::40]]
    moto = EC2Serializer(operation).serialize({"InstanceTypes": rows, "NextToken": "a<b"})["body"]
    ours = read(instance_type_page(rows, "a<b"), operation)
    assert ours == read(moto, operation)
    types = ours["InstanceTypes"]
    assert isinstance(types, list)
    assert len(types) == len(rows)


def test_the_last_page_has_no_token(operation: Any) -> None:
    from local.aws.ec2.type_pages import instance_type_page

    assert read(instance_type_page([], None), operation) == {"InstanceTypes": []}
