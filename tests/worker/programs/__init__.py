"""Typical user programs on real clusters: they work, or an error names their line."""
