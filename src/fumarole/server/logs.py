"""The log of a broker: one line for each event, on stderr, as text or as JSON."""

import json
import logging
import time

from fumarole.config.settings import Log


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z info NATS door open on 127.0.0.1:4222`"""

    def format(self, record: logging.LogRecord) -> str:
        text = f"{_time(record)} {record.levelname.lower()} {record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonFormatter(logging.Formatter):
    """`{"time": "2026-01-31T12:00:00.123Z", "level": "info", "from": "fumarole.server.broker", "text": "…"}`"""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "from": record.name,
            "text": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


def start(settings: Log) -> None:
    """Sets the level and form of this process's log."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.format == "json" else TextFormatter())
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
