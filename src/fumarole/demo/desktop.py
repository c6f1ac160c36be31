"""Opens the console in the browser of a desktop."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Final

IN_THE_TERMINAL: Final = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})
"""Browsers that would take the terminal from the demonstration."""


def is_desktop(environment: Mapping[str, str], platform: str) -> bool:
    """True for a session with a display that is in front of the user."""
    if "SSH_CONNECTION" in environment:
        return False
    return platform in ("darwin", "win32") or bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def open_page(address: str) -> bool:
    """Opens this page, and returns at once. False: there is no desktop, or no browser."""
    if not is_desktop(os.environ, sys.platform):
        return False
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    name = str(getattr(browser, "name", ""))
    return Path(name).name not in IN_THE_TERMINAL and browser.open(address)
