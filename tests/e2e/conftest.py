"""Running stacks for all end-to-end tests that leave them as they found them."""

from collections.abc import AsyncIterator, Iterator

import pytest

from local.stack import Stack
from tests.support.playground import Playground, ShellKubectl, playground_on, running_stack
from tests.support.scale_down import FAST


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


@pytest.fixture(scope="session")
def fast_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One whose disruptions take seconds. Its services may be killed."""
    with running_stack(tmp_path_factory, **FAST) as stack:
        yield stack


@pytest.fixture
async def ground(fast_stack: Stack) -> AsyncIterator[Playground]:
    """The fast stack; empty before and after each test."""
    async with playground_on(fast_stack) as playground:
        yield playground


@pytest.fixture
def kubectl(fast_stack: Stack) -> ShellKubectl:
    """kubectl for the fast stack."""
    return ShellKubectl(fast_stack)
