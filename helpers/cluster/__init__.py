"""The notebook's side, which starts, monitors and restarts workers."""
