"""Tables of names that are read on first use."""
