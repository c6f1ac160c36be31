"""Jobs: what the commands run. They only wire: read, transform, write, tell."""
