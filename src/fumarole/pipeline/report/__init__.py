"""The report: one self-contained page about an archive."""
