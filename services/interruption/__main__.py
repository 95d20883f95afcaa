"""``python -m services.interruption``: run this one service."""

from services.interruption.service import ENTRY
from shared.environment import main

if __name__ == "__main__":
    main(ENTRY)
