"""A folder for PYTHONPATH: see `sitecustomize` in it."""
