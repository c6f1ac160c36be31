"""Transforms: DataFrame in, DataFrame out, one idea each, no Python per row."""
