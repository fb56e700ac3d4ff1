"""Programs as people write them, on real clusters: they work, or an error names their line."""
