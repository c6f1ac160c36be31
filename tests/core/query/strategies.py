"""Random queries and metadata from a small stock, so that they meet."""

from hypothesis import strategies as st

from fumarole.core.query.tree import (
    OPERATORS,
    And,
    Between,
    Compare,
    Has,
    In,
    IsNull,
    Like,
    Matches,
    Metadata,
    Not,
    Or,
    Query,
    Value,
    constant,
)

keys = st.sampled_from(["a", "b", "c"])
values: st.SearchStrategy[Value] = st.sampled_from(
    [
        *["", "a", "b", "ab", "ba", "aab", "é", "🌋"],
        *[-1, 0, 1, 2, 2.5, 1.0, -0.0, 2**53, 2**53 + 1, float(2**53), 5e-324],
        *[2**64 - 1, float(2**64), 1e20, -(2**63), -1e20],
        *[True, False],
    ]
)
_likes = st.text("ab%_", max_size=4)
_regexes = st.sampled_from(["a", "^a", "b$", "^(a|b)+$", "", "(?i)B", "^.$"])

metadata: st.SearchStrategy[Metadata] = st.dictionaries(keys, values, max_size=3)
tests: st.SearchStrategy[Query] = st.one_of(
    st.builds(Compare, keys, st.sampled_from(OPERATORS), values.map(constant)),
    st.builds(In, keys, st.lists(values.map(constant), min_size=1, max_size=4).map(tuple)),
    st.builds(Between, keys, values.map(constant), values.map(constant)),
    st.builds(Like, keys, _likes),
    st.builds(Matches, keys, _regexes),
    st.builds(Has, keys),
    st.builds(IsNull, keys),
)


def joined(tests: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
    """Queries of such tests."""
    return st.recursive(
        tests,
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.builds(And, st.lists(inner, min_size=2, max_size=4).map(tuple)),
            st.builds(Or, st.lists(inner, min_size=2, max_size=4).map(tuple)),
        ),
        max_leaves=8,
    )


queries = joined(tests)

# For what is only written and read, any text will do.
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
any_numbers = st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False))
any_values = st.one_of(any_text, any_numbers, st.booleans())
any_tests: st.SearchStrategy[Query] = st.one_of(
    st.builds(Compare, any_text, st.sampled_from(OPERATORS), any_values.map(constant)),
    st.builds(In, any_text, st.lists(any_values.map(constant), min_size=1, max_size=4).map(tuple)),
    st.builds(Between, any_text, any_values.map(constant), any_values.map(constant)),
    st.builds(Like, any_text, any_text),
    st.builds(Matches, any_text, _regexes),
    st.builds(Has, any_text),
    st.builds(IsNull, any_text),
)
any_queries = joined(any_tests)
