"""Configuration, wiring, command line, logs."""
