"""Many nodes, one exchange: membership, replicated state, and the links between nodes."""
