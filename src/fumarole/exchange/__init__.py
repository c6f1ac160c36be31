"""Who gets a publication: consumers, groups, outboxes, namespaces. Pure: time comes in as a number."""
