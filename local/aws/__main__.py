"""``python -m local.aws``: read settings, start the emulator, print its URL, serve until SIGTERM or SIGINT."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from typing import NoReturn

from local.aws.moto.resources import import_moto
from local.aws.settings import EmulatorSettings, describe_settings
from shared.concurrency.clock import SystemClock
from shared.log import configure, get_logger

log = get_logger(__name__)


def main() -> None:
    """Run the emulator. Returns 0 after a signal or ``--help`` and 1 for invalid settings."""
    if set(sys.argv[1:]) & {"-h", "--help"}:
        sys.stdout.write(describe_settings() + "\n")
        return
    settings = EmulatorSettings()
    configure(settings.log_level)
    serve(settings, stopped_by_signal())


def stopped_by_signal() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopped.set())
    return stopped


def serve(settings: EmulatorSettings, stopped: threading.Event) -> NoReturn:
    """Serve until ``stopped``, then end the process. moto is imported here, reduced to the data of the region."""
    import_moto(settings.region)
    from local.aws.emulator import Emulator
    from local.aws.http.wsgi import build_server
    from local.aws.seeding import seed

    emulator = Emulator(settings, SystemClock(), seed)
    server = build_server(emulator)
    emulator.start()
    threading.Thread(target=server.serve_forever, args=(0.1,), name="server", daemon=True).start()
    keep_static_data_out_of_collections()
    url = f"http://{settings.host}:{server.port}"
    if settings.url_file is not None:
        complete = settings.url_file.with_name(settings.url_file.name + ".partial")
        complete.write_text(url)
        complete.replace(settings.url_file)
    log.info("aws emulator listening", url=url)
    stopped.wait()
    server.shutdown()
    emulator.stop()
    sys.stdout.flush()
    # The interpreter's normal exit takes seconds: it visits every object and waits for busy threads.
    os._exit(0)


def keep_static_data_out_of_collections() -> None:
    """The catalogue is half a million permanent objects: a full garbage collection over them takes 0.2 s."""
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    main()
