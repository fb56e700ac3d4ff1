"""The parts that only the course uses: figures, panel, exercises, and the lessons' network."""
