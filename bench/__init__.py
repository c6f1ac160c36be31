"""Every claim about speed and memory, measured beside its peer or its limit: one file per claim, `run.py` runs them."""
