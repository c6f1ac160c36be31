"""Many nodes, one exchange: who is there, what each knows, and the links between them."""
