"""What runs inside each process of a cluster."""
