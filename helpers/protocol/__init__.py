"""What travels between the notebook and its workers."""
