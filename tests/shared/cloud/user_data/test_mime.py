"""Parts of the user and ours in one document (LCH-30, LCH-31)."""

from __future__ import annotations

import pytest

from shared.cloud.user_data.mime import document, node_config_part, shell_part
from shared.errors import InvalidObject
from tests.support.aws.boot_data import body, parts

OURS = shell_part("ours\n")
TWO_PARTS = (
    'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="XX"\n\n'
    "--XX\nContent-Type: text/cloud-config\n\npackages: [jq]\n"
    '--XX\nContent-Type: text/x-shellscript; charset="us-ascii"\n\necho one\n--XX--\n'
)


def test_a_users_mime_document_is_taken_apart_and_ours_comes_last() -> None:
    """LCH-30: later parts win."""
    found = parts(document(TWO_PARTS, OURS))
    types = [part.get_content_type() for part in found]
    assert types == ["text/cloud-config", "text/x-shellscript", "text/x-shellscript"]
    assert [body(part) for part in found] == ["packages: [jq]", "echo one", "ours\n"]


def test_the_document_has_karpenters_boundary() -> None:
    """LCH-30: boot data of AL2."""
    text = document("", OURS)
    assert text.startswith(
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n--//\n'
    )


def test_parts_in_parts_are_one_list() -> None:
    inner = TWO_PARTS.removeprefix("MIME-Version: 1.0\n")
    outer = f'Content-Type: multipart/mixed; boundary="OUT"\n\n--OUT\n{inner}\n--OUT--\n'
    assert len(parts(document(outer, OURS))) == 3


def test_a_document_of_nodeadm_is_a_part_of_its_kind() -> None:
    """LCH-32: boot data of AL2023."""
    own = "# mine\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig # nodeadm\n"
    (first, second) = parts(document(own, node_config_part("kind: NodeConfig\n")))
    assert first.get_content_type() == second.get_content_type() == "application/node.eks.aws"
    assert body(first) == own


@pytest.mark.parametrize(
    "script",
    ["echo NodeConfig: [", "# kind: NodeConfig", "#!/bin/sh\ncat <<X\nkind: NodeConfig\nX"],
)
def test_what_only_speaks_of_it_is_a_script(script: str) -> None:
    """LCH-31: user data that is not MIME."""
    assert parts(document(script, OURS))[0].get_content_type() == "text/x-shellscript"


@pytest.mark.parametrize(
    "text",
    [
        "MIME-Version: 1.0\n\nno parts",
        'Content-Type: multipart/mixed; boundary="A"\n\n--B\n\nx\n--B--\n',
    ],
)
def test_a_broken_mime_document_is_refused(text: str) -> None:
    with pytest.raises(InvalidObject, match=r"spec\.userData: starts like a MIME"):
        document(text, OURS)


@pytest.mark.parametrize(
    "level", ["Content-Type: message/rfc822\n\n", "Content-Type: multipart/a\n\n"]
)
def test_messages_in_messages_without_end_are_refused(level: str) -> None:
    with pytest.raises(InvalidObject, match=r"spec\.userData: nests MIME parts"):
        document("MIME-Version: 1.0\n" + level * 2000, OURS)


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_without_user_data_there_is_our_part_alone(text: str) -> None:
    assert len(parts(document(text, OURS))) == 1
