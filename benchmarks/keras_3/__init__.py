"""Keras 3 on several workers: each row of the table compares runs of two workers and of one."""
