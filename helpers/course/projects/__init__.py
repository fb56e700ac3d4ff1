"""Projects: students build a part of a distributed system, which is graded on real processes.

| module | imports | contains |
|---|---|---|
| `NAME` | `judge`, `NAME_runs` | the criteria |
| `NAME_report` | `panels`, `NAME_runs` | the chart |
| `NAME_runs` | `observations`, `group` | the situations, and what the module does in them |
| `group` | `relay`, `wire` | the processes, as the kernel starts and calls them |
| `worker` | `adapters`, `wire` | each process, which runs the student's module |

A student writes one module. `group.ProcessGroup` starts N processes that run it. Each process calls
the module through one function of `adapters`, so any design is accepted. All connections between
the processes go through `relay.Relay`, which counts bytes, adds latency, holds data back, and
triggers faults.

To add a project, see "Adding a project" in CONTRIBUTING.md.
"""
