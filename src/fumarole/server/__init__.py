"""One broker wired together: doors, workers, clustering, credentials, logs."""
