"""The programs that are timed against each other; `report` says what they share.

Each runs as `python -m benchmarks.contenders.NAME`, one process for each rank,
and leaves a report. `measure.py` makes the numbers of all of them from those reports alone.
"""
