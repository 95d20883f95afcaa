"""``python -m deploy.observability``: writes deploy/observability/dashboards (``make dashboards``)."""

from deploy.observability.content import DASHBOARDS
from deploy.observability.panels import FOLDER, documents


def main() -> None:
    """Write every dashboard."""
    for name, text in documents(DASHBOARDS).items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
