"""The magics that run notebook cells in the workers of a local cluster: `%load_ext helpers`."""
