"""What outlives the broker: producers' metadata, on disk."""
