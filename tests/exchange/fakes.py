"""Outlets that only remember."""

from fumarole.core.publication import Publication
from fumarole.exchange.consumer import Consumer


class Listener:
    """An outlet that takes everything, or has no room when it is told so."""

    def __init__(self, name: str = "", echo: bool = True) -> None:
        self.name = self.label = name
        self.echo = echo
        self.healthy = True
        self.heard: list[tuple[bytes, str]] = []

    def has_room(self, weight: int) -> bool:
        return self.healthy

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        self.heard.append((consumer.key, publication.topic))
