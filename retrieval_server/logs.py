"""Structured logs: one JSON object a line, the same for every service. Query text is in them only when asked for.

configure_logs("info")
log_event(logging.getLogger("retrieval_server.access"), "request", route="/v1/search", code=200, ms=6.1)
-> {"time": "2026-12-01T10:00:00.123+00:00", "level": "info", "logger": …, "event": "request", "route": …}
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any


class JsonLines(logging.Formatter):
    """A record as one line of JSON; the fields given to `log_event` stand beside time, level and logger."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        text = json.dumps(line, ensure_ascii=False, default=str)
        return text.encode("utf-8", "replace").decode()  # lone surrogates pass JSON but no UTF-8 stream


def log_event(logger: logging.Logger, event: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log one event with its fields."""
    logger.log(level, event, extra={"fields": fields})


def configure_logs(level: str = "info") -> None:
    """Send every record of this process to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Libraries that write a line per request of their own would say what was asked for.
    for noisy in ("httpx", "httpcore", "openai"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
