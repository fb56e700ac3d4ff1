"""What only the course uses: its figures, panel, exercises, and the network of its lessons."""
