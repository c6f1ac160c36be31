"""Patterns and queries as native Spark columns: no Python per row, and the meaning of the live engines (P4, M11)."""
