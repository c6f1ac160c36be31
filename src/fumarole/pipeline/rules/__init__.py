"""Rules on columns: what `core.alarms` defines, for very many readings at a time."""
