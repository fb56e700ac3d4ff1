"""The code that runs inside each process of a cluster."""
