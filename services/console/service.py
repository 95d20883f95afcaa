"""Wires the console. It reads the mirror like every service, and writes nothing anywhere."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from services.console.console import Console
from services.console.feed.feed import Feed
from services.console.feed.history import History
from services.console.picture.picture import KINDS, Picture
from services.console.recorded_hour import BOUNDS
from services.console.reports.cost import SAMPLE_SECONDS
from services.console.reports.health import Health
from services.console.reports.ledgers import PATHS
from services.console.reports.peers import POLL_SECONDS, QUESTION_TIMEOUT_SECONDS, SERVICES, Peers
from services.console.status.access import Access, check_open
from services.console.status.routes import add_routes
from shared.distribution.version import VERSION
from shared.kube.token_access import TokenAccess
from shared.redis.mirror import MirrorReader
from shared.runtime.archive.place import ArchivePlace
from shared.runtime.environment import Entry, Environment
from shared.runtime.services import Loop, Service, periodic
from shared.runtime.status.admission import PROFILE_PATH, by_token
from shared.settings import ConsoleSettings

RECORD_SECONDS = 0.25
REPACK_CHECK_SECONDS = 10.0
QUESTION_CHECK_SECONDS = 2.0
RECALL_CHECK_SECONDS = 1.0
TOKEN_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


async def build(env: Environment[ConsoleSettings]) -> Service:
    """Wire the console. Raises ConfigurationError when anybody on the network could read it."""
    settings = env.settings
    check_open(settings.console_access, settings.status_host)
    console = compose(env)
    tokens = TokenAccess(env.kube, env.clock, verb="get")
    access = Access(tokens if settings.console_access == "authenticated" else None)
    timed = partial(periodic, clock=env.clock, jitter=env.random)
    return Service(
        "console",
        [
            Loop("mirror", console.reader.run, progress=lambda: console.reader.last_progress),
            timed("picture", RECORD_SECONDS, console.record),
            timed("services", POLL_SECONDS, console.poll),
            timed("cost", SAMPLE_SECONDS, console.sample),
            _patient(timed("cost of new machines", REPACK_CHECK_SECONDS, console.repack)),
            _patient(timed("recorded hour", RECALL_CHECK_SECONDS, console.recall), BOUNDS.seconds),
            _patient(timed("questions", QUESTION_CHECK_SECONDS, console.ask)),
            _patient(
                timed("ledgers", QUESTION_CHECK_SECONDS, console.ask_ledgers),
                len(PATHS) * QUESTION_TIMEOUT_SECONDS,
            ),
        ],
        env.metrics,
        console.status,
        console.missing,
        add_routes=lambda app: add_routes(app, console, access),
        admit_profile=by_token(tokens, PROFILE_PATH) if access.tokens else None,
    )


def _patient(loop: Loop, seconds: float = QUESTION_TIMEOUT_SECONDS) -> Loop:
    """A loop that waits for answers, of the scheduler if nothing else is said, which take up to ``seconds``."""
    loop.late_seconds = 2 * seconds
    return loop


def compose(env: Environment[ConsoleSettings]) -> Console:
    """The parts of one console. Tests use them without the loops."""
    settings, clock = env.settings, env.clock
    picture = Picture()
    epoch = f"{env.random.getrandbits(32):08x}"
    reader = MirrorReader(
        settings.redis_url,
        env.bus.prefix,
        clock=clock,
        random=env.random,
        kinds=KINDS,
        on_change=lambda change: console.note(change),
        key=settings.mirror_key,
        on_rejected=env.metrics.mirror_rejected.inc,
    )
    urls = {name: str(getattr(settings, f"{name}_url")) for name in SERVICES}
    peers = Peers(urls, clock, partial(_token, settings))
    namespace = settings.leader_election_namespace or settings.system_namespace
    health = Health(peers, reader, env.kube, clock, namespace, settings.leader_election_name)
    console = Console(
        picture=picture,
        feed=Feed(picture, epoch, settings.cluster_name, VERSION),
        history=History(),
        peers=peers,
        health=health,
        bus=env.bus,
        kube=env.kube,
        clock=clock,
        reader=reader,
        max_age=settings.mirror_max_age,
        archive=ArchivePlace(
            settings.record_store, settings.record_endpoint_url, settings.cluster_name
        ),
    )
    return console


def _token(settings: ConsoleSettings) -> str:
    """The token for the scheduler's questions: the setting's, or that of the ServiceAccount inside a pod."""
    given = settings.scheduler_token.get_secret_value()
    return given or (TOKEN_FILE.read_text().strip() if TOKEN_FILE.exists() else "")


ENTRY = Entry("console", ConsoleSettings, build)
