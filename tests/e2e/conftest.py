"""One running stack for all end-to-end tests of a worker: starting one costs more than most stories do."""

from collections.abc import AsyncIterator, Iterator

import pytest

from local.stack import Stack
from tests.support.console.story_page import StoryPage, story_page
from tests.support.redis.guarded import refused_by
from tests.support.stories.audited import audit_at_the_end
from tests.support.stories.gaps.api_proxy import ApiProxy, ProxiedStack, proxied_stack
from tests.support.stories.playground import Playground, ShellKubectl, playground_on

TIMEOUT = pytest.mark.timeout(400)
"""Also the first test of a worker, for which the stack starts, on a slow machine."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First what wants services that have done nothing yet, so that none must be started again for it; then the longest
    story, whose events would wait behind those about 400 pods."""
    for item in items:
        if item.get_closest_marker("e2e") and not item.get_closest_marker("timeout"):
            item.add_marker(TIMEOUT)
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if "fresh_playground" in getattr(item, "fixturenames", ()):
        return 0
    return 1 if item.path.name == "test_waiting.py" else 2


@pytest.fixture(scope="session")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedStack]:
    """A stack with all services, whose disruptions take seconds. Its services may be killed and cut off from the API
    server, and nothing else. At its end an audit must find every promise kept."""
    with proxied_stack(tmp_path_factory, console=True) as proxied:
        yield proxied
        audit_at_the_end(proxied.stack)


@pytest.fixture(scope="session")
def stack(proxied: ProxiedStack) -> Stack:
    """The stack of most stories."""
    return proxied.stack


@pytest.fixture
def api_proxy(proxied: ProxiedStack) -> Iterator[ApiProxy]:
    """What is between its services and its API server. It works after each test."""
    yield proxied.proxy
    proxied.proxy.heal()


@pytest.fixture
async def playground(stack: Stack) -> AsyncIterator[Playground]:
    """The stack; empty before and after each test. In none of them may a service lack a right in Redis."""
    async with playground_on(stack) as playground:
        yield playground
        assert await refused_by(playground.environment.redis_url) == []


@pytest.fixture
async def fresh_playground(playground: Playground) -> Playground:
    """With services that have launched nothing yet: what a test measures is then its own doing."""
    if await playground.launched_anything():
        await playground.restart_services()
    return playground


@pytest.fixture
async def console(playground: Playground) -> AsyncIterator[StoryPage]:
    """The console's page, which watches the story."""
    async with story_page(playground.environment.services["console"]) as page:
        yield page


@pytest.fixture
def kubectl(stack: Stack) -> ShellKubectl:
    """kubectl for it."""
    return ShellKubectl(stack)
