"""``python -m services``: all five in one process, for small machines. The status pages are under ``/<service>/``."""

from shared.runtime.ram import uncollected

with uncollected():
    from services.interruption import service as interruption
    from services.launcher import service as launcher
    from services.scheduler import service as scheduler
    from services.terminator import service as terminator
    from services.watcher import service as watcher
    from shared.runtime.environment import main

if __name__ == "__main__":
    main(watcher.ENTRY, scheduler.ENTRY, launcher.ENTRY, terminator.ENTRY, interruption.ENTRY)
