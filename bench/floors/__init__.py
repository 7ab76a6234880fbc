"""The least that any program of this kind would cost, each a process of its own."""
