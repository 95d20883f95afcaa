"""The code blocks of README and docs run as they stand, in the order of their page.

All at night, page by page: those that need nothing, those on a stack of their own, and those on an AWS account with a
cluster, into which the page installs Dovetail.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from release.artefacts.images import no_engine
from tests.support.cluster.helm import NEEDS_HELM
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.processes import page_session
from tests.support.stories.account import account
from tests.support.texts.blocks import Block, all_blocks, blocks
from tests.support.texts.citations import PROJECT

BLOCKS = all_blocks()
ON_A_STACK = sorted({block.page for block in BLOCKS if block.where == "stack"})
WITHOUT = sorted({block.page for block in BLOCKS if block.where == "here"})
ON_AN_ACCOUNT = sorted({block.page for block in BLOCKS if block.where == "account"})
IN_AN_ENGINE = sorted({block.page for block in BLOCKS if block.where == "engine"})
SECONDS_HERE, SECONDS_ON_A_STACK, SECONDS_ON_AN_ACCOUNT, SECONDS_IN_AN_ENGINE = (
    110.0,
    1500.0,
    1500.0,
    1500.0,
)
OF_THE_ENGINE = ("DOCKER_HOST", "DOCKER_CONFIG", "LD_LIBRARY_PATH", "BASE_IMAGE")
"""Variables that reach the page: where the engine is, and an image in place of that of a registry."""
CHART_PAGE = "docs/operating/helm.md"
NEEDS_AWS = pytest.mark.skipif(
    shutil.which("aws") is None, reason="the AWS CLI is not installed: pipx install awscli"
)


def of(page: str, *places: str) -> list[Block]:
    """The blocks of a page that run at these places or have something in their place, and the files that its reader
    saves."""
    return [
        block
        for block in BLOCKS
        if block.page == page
        and (block.where in places or block.file or (block.first and block.where[:3] == "no:"))
    ]


def look_as_shown(page: list[Block], printed: dict[str, str]) -> None:
    shown = [
        block for block in page if block.language == "console" and page_session.expected(block)
    ]
    missing = {
        block.name: line
        for block in shown
        if (line := page_session.differs(block, printed[block.name]))
    }
    assert missing == {}, {name: printed[name] for name in missing}


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Path]:
    """A folder like a clone; whatever stack a page leaves in it is stopped."""
    yield page_session.checkout(tmp_path)
    if (tmp_path / ".dovetail").exists():
        command = [str(Path(sys.executable).with_name("dovetail")), "down"]
        subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)


@pytest.mark.nightly
@pytest.mark.parametrize("page", WITHOUT)
def test_the_blocks_that_need_nothing_run(page: str, clone: Path) -> None:
    page_session.installed()
    parts = of(page, "here")
    look_as_shown(parts, page_session.run(clone, parts, SECONDS_HERE))


@pytest.mark.nightly
@pytest.mark.timeout(SECONDS_ON_A_STACK + 300)
@pytest.mark.parametrize("page", ON_A_STACK)
def test_the_blocks_of_a_page_run_on_a_stack(page: str, clone: Path) -> None:
    """A page that does not start a stack finds one running, as its reader does."""
    page_session.installed()
    parts = of(page, "here", "stack")
    typed = "".join(block.first + block.text for block in parts)
    if " up --detach" not in typed and "make up" not in typed:
        start = "dovetail up --detach\nsource .dovetail/env\n"
        parts = [Block(page, 0, "sh", start, "stack", ""), *parts]
    look_as_shown(parts, page_session.run(clone, parts, SECONDS_ON_A_STACK))


@NEEDS_AWS
@NEEDS_HELM
@NEEDS_KUBECTL
@pytest.mark.nightly
@pytest.mark.timeout(SECONDS_ON_AN_ACCOUNT + 300)
@pytest.mark.parametrize("page", ON_AN_ACCOUNT)
def test_the_blocks_of_a_page_run_on_an_account(page: str, clone: Path) -> None:
    """Pods run their commands. A page that does not say how to install finds it done as the page of the chart says."""
    parts = [*before(page), *of(page, "account")]
    with account(clone / "account", *names(parts)) as there:
        printed = page_session.run(clone, parts, SECONDS_ON_AN_ACCOUNT, there.environment)
    look_as_shown(parts, printed)
    # After new passwords a pod may start before Redis does.
    others = [one for one in there.kubelet.ended if "lets nobody in by this name" not in one]
    assert others == [], "a service ended by itself"


@NEEDS_KUBECTL
@pytest.mark.nightly
@pytest.mark.timeout(SECONDS_IN_AN_ENGINE + 300)
@pytest.mark.parametrize("page", IN_AN_ENGINE)
def test_the_blocks_of_a_page_run_in_an_engine(page: str, tmp_path: Path) -> None:
    """Nothing of the stack is left when the page has stopped it."""
    if reason := no_engine():
        pytest.skip(reason)
    folder, parts = page_session.clone(tmp_path / "clone"), of(page, "engine")
    stated = {name: os.environ[name] for name in OF_THE_ENGINE if name in os.environ}
    compose = ["docker", "compose"]
    try:
        look_as_shown(parts, page_session.run(folder, parts, SECONDS_IN_AN_ENGINE, stated))
        left = subprocess.run([*compose, "ps", "-aq"], cwd=folder, capture_output=True, check=True)
        assert left.stdout == b""
    finally:
        subprocess.run(
            [*compose, "down", "--volumes"], cwd=folder, capture_output=True, check=False
        )


def before(page: str) -> list[Block]:
    """What the reader of a page has done: rights, and a release if the page installs none. None if it makes the rights
    of its release itself."""
    own = of(page, "account")
    chart = of(CHART_PAGE, "account")
    release = next(n for n, block in enumerate(chart) if "helm install" in block.text)
    own_way = r"(?m)^(kubectl create namespace dovetail$|kubectl apply -k deploy|helm install )"
    installs = any(re.search(own_way, block.text) for block in own)
    if installs and any("create-role" in block.text for block in own):
        return []
    files = [block for block in chart if block.file]
    return [*files, *chart[: release if installs else release + 1]]


def names(parts: list[Block]) -> tuple[str, str]:
    """Cluster and region that the page names first."""
    text = "".join(block.text for block in parts)
    found = re.search(r"CLUSTER_NAME=([\w-]+) AWS_REGION=([\w-]+)", text)
    assert found is not None
    return found[1], found[2]


@pytest.mark.slow
def test_a_block_that_fails_is_named(clone: Path) -> None:
    page = list(blocks("page.md", "```sh\nx=1\n```\n\n```sh\necho $x\nfalse\necho never\n```\n"))
    with pytest.raises(page_session.BlockFailed, match=r"page\.md:5 ended with 1:\n1\n$"):
        page_session.run(clone, page, 30)


@pytest.mark.slow
def test_a_page_changes_files_of_its_own_clone_only(clone: Path) -> None:
    own = clone / "README.md"
    page = list(blocks("page.md", "```sh\ntruncate --size 0 README.md\n```\n"))
    page_session.run(clone, page, 30)
    assert own.read_text() == ""
    assert (PROJECT / "README.md").read_text()
    links = [path for path in clone.rglob("*") if path.is_symlink() and path.name != ".venv"]
    assert [path for path in links if not path.resolve().is_relative_to(clone)] == []


@pytest.mark.slow
def test_a_picture_that_is_not_printed_is_found(clone: Path) -> None:
    page = list(
        blocks(
            "page.md",
            "```console\n$ echo a  b c; false\na b ...\n```\n\n```console\n$ echo d\ne\n```\n",
        )
    )
    printed = page_session.run(clone, page, 30)
    assert [page_session.differs(block, printed[block.name]) for block in page] == ["", "e"]


@pytest.mark.slow
def test_a_reader_saves_the_files_of_a_page(clone: Path) -> None:
    page = list(
        blocks(
            "page.md", "<!-- file: a/b.yaml -->\n```yaml\nx: $y\n```\n```sh\ncat a/b.yaml\n```\n"
        )
    )
    assert page_session.run(clone, page, 30) == {"page.md:5": "x: $y\n"}


@pytest.mark.slow
def test_what_comes_first_is_typed_and_not_shown(clone: Path) -> None:
    """Before a block that runs, and in the place of one that does not."""
    text = (
        "<!-- first: x=1 -->\n<!-- first: y=2 -->\n```sh\necho $x$y\n```\n"
        "<!-- run: no: hours -->\n<!-- first: x=3 -->\n```sh\nfalse\n```\n```sh\necho $x\n```\n"
    )
    printed = page_session.run(clone, list(blocks("page.md", text)), 30)
    assert printed == {"page.md:3": "12\n", "page.md:8": "", "page.md:11": "3\n"}
