"""The training of `LocalCluster` on the machines of a Ray cluster."""
