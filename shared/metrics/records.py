"""Metrics of decision records."""

from __future__ import annotations

from shared.metrics.declaring import Declarations


class RecordMetrics:
    """Written by the scheduler."""

    def __init__(self, declare: Declarations) -> None:
        self.records = declare.counter(
            "dovetail_decision_records_total", "Rounds of the scheduler that were recorded."
        )
        self.record_bytes = declare.counter(
            "dovetail_decision_record_bytes_total", "Compressed bytes written to the archive."
        )
        self.record_failures = declare.counter(
            "dovetail_decision_record_failures_total", "Writes to the archive that failed."
        )
        self.records_lost = declare.counter(
            "dovetail_decision_records_lost_total",
            "Changes, records and documents that were lost: the archive was away or full for too long.",
        )
        self.archive_bytes = declare.gauge(
            "dovetail_archive_bytes", "Size of the archive when old records were last deleted."
        )
