"""One running stack for all end-to-end tests that leave it as they found it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from local.stack import Stack
from tests.support.playground import Playground, playground_on, running_stack


@pytest.fixture(scope="session")
def shared_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with all services. Tests must not kill its parts."""
    with running_stack(tmp_path_factory) as stack:
        yield stack


@pytest.fixture
async def playground(shared_stack: Stack) -> AsyncIterator[Playground]:
    """The shared stack; empty before and after each test."""
    async with playground_on(shared_stack) as playground:
        yield playground
