"""``python -m services.console``: run this one service."""

from shared.runtime.ram import uncollected

with uncollected():
    from services.console.service import ENTRY
    from shared.runtime.environment import main

if __name__ == "__main__":
    main(ENTRY)
