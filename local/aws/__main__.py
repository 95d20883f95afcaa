"""``python -m local.aws``: read settings, start the emulator, print its URL, serve until SIGTERM or
SIGINT.
"""

from __future__ import annotations

import signal
import sys
import threading

from local.aws.moto_resources import import_moto
from local.aws.settings import EmulatorSettings, describe_settings
from shared.clock import SystemClock
from shared.log import configure, get_logger

log = get_logger(__name__)


def main() -> int:
    """Exit status 0 after a signal, 2 for settings that are wrong."""
    if set(sys.argv[1:]) & {"-h", "--help"}:
        sys.stdout.write(describe_settings() + "\n")
        return 0
    settings = EmulatorSettings()
    configure(settings.log_level)
    serve(settings, stopped_by_signal())
    return 0


def stopped_by_signal() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopped.set())
    return stopped


def serve(settings: EmulatorSettings, stopped: threading.Event) -> None:
    """Serve until ``stopped``. moto is imported here, after its data was trimmed to the region."""
    import_moto(settings.region)
    from local.aws.emulator import Emulator
    from local.aws.seeding import seed
    from local.aws.wsgi import build_server

    emulator = Emulator(settings, SystemClock(), seed)
    server = build_server(emulator)
    emulator.start()
    threading.Thread(target=server.serve_forever, name="server", daemon=True).start()
    url = f"http://{settings.host}:{server.port}"
    if settings.url_file is not None:
        settings.url_file.write_text(url)
    log.info("aws emulator listening", url=url)
    stopped.wait()
    server.shutdown()
    emulator.stop()


if __name__ == "__main__":
    sys.exit(main())
