"""Runs the cells of a notebook in a worker, one after the other, with variables that persist."""
