"""The meaning of topics, patterns and limits. Pure: nothing but the standard library."""
