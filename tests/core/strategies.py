"""Random topics and patterns from a small alphabet, so that they meet."""

from hypothesis import strategies as st

_words = st.sampled_from(["", "a", "b", "ab", "aab", "abab", "c"])
_pattern_words = st.one_of(_words, st.sampled_from(["*", "*", "a*", "*b", "a*b", "*a*", "a*b*b", "**"]))

topics = st.lists(_words, min_size=1, max_size=5).map(".".join)
patterns = st.builds(
    lambda words, rest: ".".join([*words, *rest]) if words or rest else ">",
    st.lists(_pattern_words, max_size=4),
    st.sampled_from([[], [], [">"]]),
)
keys = st.lists(st.sampled_from(["a", "b", "c"]), max_size=6).map(".".join)
bindings = st.lists(st.sampled_from(["a", "b", "c", "*", "#", "#"]), max_size=6).map(".".join)
