"""``python -m services.launcher``: run this one service."""

from services.launcher.service import ENTRY
from shared.environment import main

main(ENTRY)
