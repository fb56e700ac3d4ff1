"""The programs whose times are compared. `report` has their shared code.

Each runs as `python -m benchmarks.contenders.NAME`, one process for each rank, and writes a report.
`measure.py` computes the numbers of all contenders from these reports alone.
"""
