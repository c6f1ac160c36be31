"""Durable state on disk: producers' metadata, and retained messages."""
