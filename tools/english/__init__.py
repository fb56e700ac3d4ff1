"""Checks of the course's English by rules, and a comparison with TensorFlow's docstrings."""
