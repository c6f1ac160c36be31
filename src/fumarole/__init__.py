"""Fumarole: a message exchange for many small, fresh messages."""

__version__ = "0.1.0"
