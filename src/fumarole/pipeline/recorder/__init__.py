"""The recorder: captures what is published into an archive, and says what it has safely on disk."""
