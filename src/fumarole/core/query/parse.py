"""From text to tree (M9).

The text is cut into tokens, each token is counted against the limits (L2), and only then fed to the parser that lark
has made from the grammar below. So a query that is too large is refused before it has cost anything, and since the
parser keeps a stack of its own, nothing here recurses, however deep the parentheses.
"""

import math
import re
from functools import cache
from typing import Any, Final

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args

from fumarole.core.limits import Limits
from fumarole.core.query.cost import price
from fumarole.core.query.errors import QueryError, clipped
from fumarole.core.query.regex import RegexError, finder
from fumarole.core.query.tree import (
    DEEPEST_PATH,
    FIELD,
    FIELDS,
    PLAIN_KEY,
    PLAIN_STEP,
    QUOTED_KEY,
    And,
    Between,
    Compare,
    Constant,
    Field,
    Has,
    In,
    IsNull,
    Key,
    Like,
    Matches,
    Not,
    Operator,
    Or,
    Query,
    constant,
    fields,
    is_keyword,
    unquoted,
)
from fumarole.core.values import HIGHEST_INTEGER, LOWEST_INTEGER

# Words are all cut out as keys, of which some are then seen to be keywords: so `android` is a key, and not AND `roid`.
# A number ends where no key could go on, or `1st` would be two tokens; text ends with a quote that is not doubled.
_GRAMMAR: Final = rf"""
?query: either
?either: both (_OR both)*
?both: single (_AND single)*
?single: test
    | _NOT single                                -> denied
?test: "(" either ")"
    | _key OPERATOR value                        -> compare
    | _key _IN values                            -> is_in
    | _key _NOT _IN values                       -> not_in
    | _key _BETWEEN value _AND value             -> between
    | _key _NOT _BETWEEN value _AND value        -> not_between
    | _key _LIKE TEXT                            -> like
    | _key _NOT _LIKE TEXT                       -> not_like
    | _key _MATCHES TEXT                         -> matches
    | _key _NOT _MATCHES TEXT                    -> not_matches
    | _key _IS _NULL                             -> is_null
    | _key _IS _NOT _NULL                        -> not_null
    | _key                                       -> alone
    | _HAS _key                                  -> has
_key: KEY | FIELD
values: "(" value ("," value)* ")"
value: TEXT | NUMBER | TRUTH

%declare _AND _OR _NOT _IN _BETWEEN _LIKE _MATCHES _HAS _IS _NULL TRUTH
OPERATOR: /[<>!]=|<>|[=<>]/
KEY: /{PLAIN_KEY}/ | /{QUOTED_KEY}/
FIELD: /{FIELD}/
TEXT: /'[^']*(?:''[^']*)*'(?!')/ | /"[^"]*(?:""[^"]*)*"(?!")/
NUMBER: /[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w~$\/%.+-])/
%ignore /\s+/
"""

# What an error says was expected, in this order. Whole sets first: they have a word of their own.
_ALTERNATIVES: Final = (
    ({"KEY", "FIELD", "_HAS", "_NOT", "LPAR"}, "a test (a key, HAS, NOT or a parenthesis)"),
    ({"TEXT", "NUMBER", "TRUTH"}, "a value (text in quotes, a number, true or false)"),
    ({"KEY", "FIELD"}, "a key"),
    ({"TEXT"}, "text in quotes"),
    ({"OPERATOR"}, "a comparison (= != <> < <= > >=)"),
    ({"_IN"}, "IN"),
    ({"_BETWEEN"}, "BETWEEN"),
    ({"_LIKE"}, "LIKE"),
    ({"_MATCHES"}, "MATCHES"),
    ({"_IS"}, "IS"),
    ({"_NOT"}, "NOT"),
    ({"_NULL"}, "NULL"),
    ({"_AND"}, "AND"),
    ({"_OR"}, "OR"),
    ({"LPAR"}, "an opening parenthesis"),
    ({"RPAR"}, "a closing parenthesis"),
    ({"COMMA"}, "a comma"),
    ({"$END"}, "the end"),
)
_OF_THE_MESSAGE: Final = ", ".join([f"${name}" for name in FIELDS]) + " or $.path.to.field"
_QUOTES: Final = {"'": "a text", '"': "a text", "`": "a key in back-quotes"}
_DEFAULTS: Final = Limits()


def parse(text: str, limits: Limits = _DEFAULTS) -> Query:
    """The tree of a query. Raises QueryError."""
    check_query_length(text, limits.query_length)
    counter = _Counter(text, limits)
    parser = _parser().parse_interactive(text)
    try:
        for token in parser.iter_parse():  # which feeds it to the parser when the next one is asked for
            counter.count(token)
        query: Query = parser.feed_token(Token("$END", "", start_pos=len(text), end_pos=len(text)))
    except UnexpectedToken as unexpected:
        wrong = unexpected.token
        raise QueryError(text, _position(wrong), _found(text, wrong), _expected_before(text, wrong)) from None
    except UnexpectedCharacters as unexpected:
        raise _not_a_token(text, unexpected.pos_in_stream) from None  # type: ignore[arg-type]
    except _WrongValueError as wrong_value:
        if wrong_value.found == _END_OF_PATH and text.startswith("`", wrong_value.position):
            raise _not_a_token(text, wrong_value.position) from None
        raise QueryError(text, wrong_value.position, wrong_value.found, wrong_value.expected) from None
    worst = price(query).worst()
    if worst > limits.query_cost:
        raise QueryError(text, 0, f"a query that costs {worst:,}", f"at most {limits.query_cost:,}")
    return query


@cache
def _parser() -> Lark:
    return Lark(
        _GRAMMAR,
        start="query",
        parser="lalr",
        lexer="basic",
        transformer=_Builder(),
        lexer_callbacks={"KEY": _key_or_keyword, "FIELD": _checked_field, "TEXT": _unquoted},
    )


def parse_without_message(text: str, limits: Limits = _DEFAULTS) -> Query:
    """The tree of a query that is put to producers alone. Raises QueryError, also where a test is of the message."""
    query = parse(text, limits)
    if fields(query):
        wrong = next(token for token in _parser().lex(text) if token.type == "FIELD")
        expected = "a metadata key: there is no message here to test (a key of this name goes in back-quotes)"
        raise QueryError(text, _position(wrong), _found(text, wrong), expected)
    return query


def _key_or_keyword(token: Token) -> Token:
    if token[0] == "`":
        return _unquoted(token)
    if not is_keyword(token):
        return token
    word = token.upper()
    return token.update("TRUTH" if word in {"TRUE", "FALSE"} else f"_{word}", word)


def _unquoted(token: Token) -> Token:
    return token.update(value=unquoted(token))


_END_OF_PATH: Final = "the end of the path"
# The step of a path, and the dot before it.
_STEP: Final = re.compile(rf"\.(?:({PLAIN_STEP})|({QUOTED_KEY}))")


def _checked_field(token: Token) -> Token:
    """Raises where there is no such name: at once, so that what follows is not looked at first."""
    _field(token)
    return token


def _field(token: Token) -> Field:
    """The name of the message that a token is (F6)."""
    name = token[1:]
    if name in FIELDS:
        return Field(name)
    if not name.startswith("."):
        expected = f"{_OF_THE_MESSAGE} (a metadata key that begins with $ goes in back-quotes)"
        raise _WrongValueError(_position(token), f"`{clipped(token)}`", expected)
    path: list[str] = []
    at = 1
    while at < len(token):
        step = _STEP.match(token, at)
        if step is None:
            at += token[at] == "."
            found = f"`{clipped(token[at:])}`" if at < len(token) else _END_OF_PATH
            raise _WrongValueError(_position(token) + at, found, "a dot and a key of the payload")
        if len(path) == DEEPEST_PATH:
            raise _WrongValueError(_position(token) + at + 1, f"key number {len(path) + 1}", f"at most {DEEPEST_PATH}")
        path.append(step[1] or unquoted(step[2]))
        at = step.end()
    return Field("", tuple(path))


# Limits.


def check_query_length(text: str, longest: int) -> None:
    """Raises QueryError where it has more bytes than that, or is no text."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError as wrong:
        raise QueryError(text, wrong.start, "half a surrogate pair", "a character") from None
    if len(encoded) > longest:
        position = len(encoded[:longest].decode(errors="ignore"))
        raise QueryError(text, position, f"a query of {len(encoded)} bytes", f"at most {longest}")


class _Counter:
    """The part of the limits that the tokens so far have used."""

    def __init__(self, text: str, limits: Limits) -> None:
        self._text = text
        self._limits = limits
        self._depth = 0
        self._opened: list[int] = []
        """By how much each parenthesis that is still open made it deeper."""
        self._denials = 0
        """NOTs directly before this token."""
        self._tests = 0
        self._values = 0
        self._regexes = 0
        self._previous = ""

    def count(self, token: Token) -> None:
        """Raises QueryError where this token is too much."""
        kind, limits = token.type, self._limits
        if kind == "_NOT":
            self._denials += 1
        elif kind == "LPAR":
            self._opened.append(self._denials + 1)
            self._depth += self._opened[-1]
            self._values = 1
        elif kind == "RPAR" and self._opened:
            self._depth -= self._opened.pop()
        elif kind in {"KEY", "FIELD"}:
            self._tests += 1
            self._check(token, "test number", self._tests, limits.query_tests)
        elif kind == "COMMA":
            self._values += 1
            self._check(token, "value number", self._values, limits.query_values)
        elif kind == "TEXT" and self._previous in {"_LIKE", "_MATCHES"}:
            self._check(token, "a pattern with a size in bytes of", len(token.encode()), limits.query_pattern)
            self._regexes += self._previous == "_MATCHES"
            self._check(token, "regular expression number", self._regexes, limits.query_regexes)
        if kind != "_NOT":
            self._denials = 0
        self._check(token, "nesting of depth", self._depth + self._denials, limits.query_depth)
        self._previous = kind

    def _check(self, token: Token, what: str, count: int, most: int) -> None:
        if count > most:
            raise QueryError(self._text, _position(token), f"{what} {count}", f"at most {most}")


# Errors.


class _WrongValueError(Exception):
    """A token of the right kind with an invalid value."""

    def __init__(self, position: int, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.position = position
        self.found = found
        self.expected = expected


def _position(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos


def _found(text: str, token: Token) -> str:
    return f"`{clipped(text[token.start_pos : token.end_pos])}`" if token.type != "$END" else "the end"


def _expected_before(text: str, wrong: Token) -> str:
    """The tokens that are valid in its place. A parser that refuses a token has already closed all open rules."""
    parser = _parser().parse_interactive(text)
    for token in parser.iter_parse():
        if token.start_pos == wrong.start_pos:
            break
    possible: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    names = []
    for tokens, name in _ALTERNATIVES:
        if tokens <= possible:
            names.append(name)
            possible -= tokens
    assert not possible, possible
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _not_a_token(text: str, position: int) -> QueryError:
    if text[position] in _QUOTES:
        return QueryError(text, position, f"{_QUOTES[text[position]]} without its end", "the same quote once more")
    word = re.compile(r"[^\s()',\"`=<>!]*").match(text, position)
    assert word is not None
    wrong = f"`{clipped(word[0] or text[position])}`"
    if re.match("[+-]?[0-9]", word[0]):
        return QueryError(text, position, wrong, "a number such as -5, 0.25 or 1e6")
    return QueryError(text, position, wrong, "a key, a value, a comparison or a keyword (other keys go in back-quotes)")


# The tree, from the leaves up: lark calls the method that a rule of the grammar names, with its children.


@v_args(inline=True)
class _Builder(Transformer[Token, Any]):
    def either(self, *terms: Query) -> Query:
        return Or(terms)

    def both(self, *terms: Query) -> Query:
        return And(terms)

    def denied(self, term: Query) -> Query:
        return Not(term)

    def compare(self, key: Token, operator: Token, value: Constant) -> Query:
        same: dict[str, Operator] = {"<>": "!="}
        return Compare(_key(key), same.get(operator, operator.value), value)

    def is_in(self, key: Token, values: tuple[Constant, ...]) -> Query:
        return In(_key(key), values)

    def not_in(self, key: Token, values: tuple[Constant, ...]) -> Query:
        return Not(In(_key(key), values))

    def between(self, key: Token, low: Constant, high: Constant) -> Query:
        return Between(_key(key), low, high)

    def not_between(self, key: Token, low: Constant, high: Constant) -> Query:
        return Not(Between(_key(key), low, high))

    def like(self, key: Token, pattern: Token) -> Query:
        return Like(_key(key), str(pattern))

    def not_like(self, key: Token, pattern: Token) -> Query:
        return Not(Like(_key(key), str(pattern)))

    def matches(self, key: Token, regex: Token) -> Query:
        return Matches(_key(key), _regex(regex))

    def not_matches(self, key: Token, regex: Token) -> Query:
        return Not(Matches(_key(key), _regex(regex)))

    def alone(self, key: Token) -> Query:
        return Compare(_key(key), "=", constant(True))

    def is_null(self, key: Token) -> Query:
        return IsNull(_key(key))

    def not_null(self, key: Token) -> Query:
        return Not(IsNull(_key(key)))

    def has(self, key: Token) -> Query:
        return Has(_key(key))

    def values(self, *constants: Constant) -> tuple[Constant, ...]:
        return constants

    def value(self, token: Token) -> Constant:
        if token.type == "TEXT":
            return constant(str(token))
        return constant(token == "TRUE" if token.type == "TRUTH" else _number(token))  # noqa: S105


def _key(token: Token) -> Key:
    return _field(token) if token.type == "FIELD" else str(token)


def _regex(token: Token) -> str:
    try:
        finder(str(token))
    except RegexError as wrong:
        raise _WrongValueError(
            _position(token), f"`{clipped(str(wrong), 80)}`", "a regular expression as RE2 has them"
        ) from None
    return str(token)


def _number(token: Token) -> int | float:
    if re.search("[.eE]", token):
        decimal = float(token)
        if math.isinf(decimal):
            raise _WrongValueError(_position(token), f"`{clipped(token)}`", "a number that a double can hold")
        return decimal
    sign, digits = re.fullmatch("([+-]?)0*([0-9]*)", token).groups()  # type: ignore[union-attr]
    # int() refuses 4,301 digits with an error of its own.
    whole = int(f"{sign}{digits or 0}") if len(digits) < 21 else None
    if whole is None or not LOWEST_INTEGER <= whole <= HIGHEST_INTEGER:
        raise _WrongValueError(
            _position(token), f"`{clipped(token)}`", f"a whole number from {LOWEST_INTEGER} to {HIGHEST_INTEGER}"
        )
    return whole
