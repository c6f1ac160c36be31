"""MATCHES: regular expressions in time linear in the text, also for hostile expressions.

They are RE2's, found anywhere in the text; `^` and `$` tie them to its ends. RE2 makes an automaton of each: there are
no back-references and no look-around, and no input costs more than one step per character and state.
"""

from collections.abc import Callable
from typing import Any, Final
from weakref import WeakValueDictionary

MEMORY: Final = 256 * 1024
"""Bytes that one expression may take, its automaton and what the automaton remembers while it runs."""
STATES: Final = 1_500
"""The largest automaton. Letters and digits of all scripts take 1,350 states, `[a-z]{1000}` a thousand."""


class RegexError(ValueError):
    """Not a regular expression, or one that is too large."""


class Automaton:
    """One expression, compiled. Those with the same text share it while it is used."""

    __slots__ = ("__weakref__", "search", "size")

    def __init__(self, search: Callable[[bytes], Any], size: int) -> None:
        self.search = search
        self.size = size
        """In states."""


_in_use: WeakValueDictionary[str, Automaton] = WeakValueDictionary()


def automaton(regex: str) -> Automaton:
    """The automaton of an expression. Raises RegexError."""
    made = _in_use.get(regex)
    if made is None:
        made = _in_use[regex] = _compiled(regex)
    return made


def _compiled(regex: str) -> Automaton:
    import re2  # type: ignore[import-untyped]  # with the first expression: its library takes 3 MiB

    options = re2.Options()
    options.max_mem = MEMORY
    options.log_errors = False
    options.never_capture = True
    try:
        expression = re2.compile(regex, options)
    except re2.error as refused:
        reason = refused.args[0] if refused.args else b""
        raise RegexError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None
    if expression.programsize > STATES:
        raise RegexError(f"an automaton of {expression.programsize} states, {STATES} at most")
    return Automaton(expression.search, expression.programsize)


def finder(regex: str) -> Callable[[str], bool]:
    """True when the expression matches somewhere in the text. Raises RegexError."""
    made = automaton(regex)

    def found(text: str) -> bool:
        # Half a surrogate pair is no character, but no reason to fail either.
        return made.search(text.encode(errors="surrogatepass")) is not None

    return found
