"""The hot loop, compiled. Held equal to protocols + sessions + exchange by tests/fastpath."""
