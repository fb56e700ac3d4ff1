"""The notebook's side: starts workers, watches them, starts them again."""
