"""Settings as types; file, environment and flags; mistakes with their lines."""
