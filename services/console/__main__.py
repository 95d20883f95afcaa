"""``python -m services.console``: run this one service."""

from shared.runtime.ram import uncollected

with uncollected():
    from services.console import service
    from shared.runtime.environment import main

if __name__ == "__main__":
    main(service.ENTRY)
