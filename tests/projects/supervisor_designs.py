"""Modules that students could write for project 6: right ones of different designs, and wrong ones.

Most wrong ones are the reference solution with one change.
"""

from __future__ import annotations

import ast
from typing import Any

from tests.projects.designs import Designs, Wrong, replace, solution, source

NAME, NOTEBOOK = "supervisor", "06_supervisor"
CHECKPOINTS = """
import hashlib
import json
import pathlib
import socket
import subprocess
import time


def newest(folder, workers):
    steps = {int(path.name.split("-")[1]) for path in pathlib.Path(folder).glob("step-*.json")}
    return max((step for step in steps if complete(folder, step, workers)), default=0)


def complete(folder, step, workers):
    for rank in range(workers):
        path = pathlib.Path(folder, f"step-{step}-worker-{rank}.json")
        digest, _, body = path.read_bytes().partition(b"\\n") if path.exists() else (b"", b"", b"")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            return False
    return True


def arguments(command, rank, port, resume):
    return [*command, "--rank", str(rank), "--port", str(port), "--resume", str(resume)]


def unused_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def supervise(command, folder, workers, start_timeout, heartbeat_timeout, progress_timeout,
              max_restarts):
    faults = []
    while True:
        resume = newest(folder, workers)
        found, results = attempt(command, folder, workers, resume, start_timeout,
                                 heartbeat_timeout, progress_timeout)
        if found is None:
            return {"results": results, "faults": faults}
        faults.append(found)
        if len(faults) > max_restarts:
            return {"results": None, "faults": faults}
"""
THREADS = (
    '"""A thread for each worker puts its messages into one queue."""\n'
    + CHECKPOINTS
    + """
import queue
import threading


def forward(rank, process, messages):
    for line in process.stdout:
        messages.put((rank, json.loads(line)))
    messages.put((rank, {"event": "end", "code": process.wait()}))


def attempt(command, folder, workers, resume, start_timeout, heartbeat_timeout, progress_timeout):
    messages, port = queue.Queue(), unused_port()
    processes, threads = [], []
    try:
        for rank in range(workers):
            process = subprocess.Popen(arguments(command, rank, port, resume), text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            processes.append(process)
            threads.append(threading.Thread(target=forward, args=(rank, process, messages)))
            threads[-1].start()
        return judge(messages, workers, start_timeout, heartbeat_timeout, progress_timeout)
    finally:
        for process in processes:
            process.kill()
        for process, thread in zip(processes, threads):
            process.wait()
            thread.join()
            process.stdout.close()


def judge(messages, workers, start_timeout, heartbeat_timeout, progress_timeout):
    heard = [time.monotonic() + start_timeout] * workers
    place, results, ended = [0] * workers, {}, set()
    moved = time.monotonic()
    while len(ended) < workers:
        try:
            rank, message = messages.get(timeout=0.05)
        except queue.Empty:
            pass
        else:
            now = time.monotonic()
            heard[rank] = now + heartbeat_timeout
            if message["event"] == "end":
                ended.add(rank)
                if rank not in results and message["code"] != 3:
                    return (rank, "died"), None
            elif message["event"] != "alive":
                place[rank] += 1
                moved = now
                if message["event"] == "done":
                    results[rank] = message["result"]
            if not messages.empty():
                continue
        now = time.monotonic()
        late = [rank for rank in range(workers) if rank not in ended and now > heard[rank]]
        if late:
            return (min(late, key=heard.__getitem__), "frozen"), None
        if 0 in place:
            moved = now
        if now > moved + progress_timeout:
            return (place.index(min(place)), "silent"), None
    return None, [results[rank] for rank in range(workers)]
"""
)
ASYNCIO = (
    '"""A task for each worker, and one that looks at the clock."""\n'
    + CHECKPOINTS
    + """
import asyncio


def attempt(*arguments):
    return asyncio.run(Attempt().run(*arguments))


class Attempt:
    async def run(self, command, folder, workers, resume, start, heartbeat, progress):
        loop = asyncio.get_running_loop()
        self.fault, self.results = loop.create_future(), {}
        self.place = dict.fromkeys(range(workers), 0)
        self.deadline, self.progress, self.moved = {}, progress, loop.time()
        port, tasks, processes = unused_port(), [], []
        try:
            for rank in range(workers):
                process = await asyncio.create_subprocess_exec(
                    *arguments(command, rank, port, resume), stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL)
                processes.append(process)
                self.deadline[rank] = loop.time() + start
                tasks.append(asyncio.create_task(self.read(rank, process, heartbeat)))
            clock = asyncio.create_task(self.watch(loop))
            everything = asyncio.gather(*tasks)
            await asyncio.wait([everything, self.fault], return_when=asyncio.FIRST_COMPLETED)
            clock.cancel()
            if self.fault.done():
                everything.cancel()
                return self.fault.result(), None
            return None, [self.results[rank] for rank in range(workers)]
        finally:
            for process in processes:
                if process.returncode is None:
                    process.kill()
            for process in processes:
                await process.wait()

    def found(self, rank, kind):
        if not self.fault.done():
            self.fault.set_result((rank, kind))

    async def read(self, rank, process, heartbeat):
        loop = asyncio.get_running_loop()
        while line := await process.stdout.readline():
            self.deadline[rank] = loop.time() + heartbeat
            message = json.loads(line) if line.endswith(b"\\n") else {"event": "alive"}
            if message["event"] != "alive":
                self.place[rank] += 1
                self.moved = loop.time()
            if message["event"] == "done":
                self.results[rank] = message["result"]
        self.deadline.pop(rank)
        code = await process.wait()
        if rank not in self.results:
            if code != 3:
                self.found(rank, "died")
            await asyncio.Event().wait()

    async def watch(self, loop):
        while True:
            await asyncio.sleep(0.05)
            now = loop.time()
            for rank, deadline in self.deadline.items():
                if now > deadline:
                    self.found(rank, "frozen")
            if not all(self.place.values()):
                self.moved = now
            if now > self.moved + self.progress:
                self.found(min(self.place, key=self.place.get), "silent")
"""
)
FILES = (
    '"""Workers write into files, which one loop reads again and again."""\n'
    + CHECKPOINTS
    + """

def attempt(command, folder, workers, resume, start_timeout, heartbeat_timeout, progress_timeout):
    port, processes, outputs = unused_port(), [], []
    try:
        for rank in range(workers):
            path = pathlib.Path(folder, f"output-{time.monotonic_ns()}")
            with path.open("wb") as output, open(f"{path}.log", "wb") as log:
                processes.append(subprocess.Popen(arguments(command, rank, port, resume),
                                                  stdout=output, stderr=log))
            outputs.append(path)
        seen, changed = [b""] * workers, [time.monotonic()] * workers
        before, moved = None, time.monotonic()
        while True:
            codes = [process.poll() for process in processes]
            for rank, path in enumerate(outputs):
                text = path.read_bytes()
                if text != seen[rank]:
                    seen[rank], changed[rank] = text, time.monotonic()
            events = [[json.loads(line) for line in text.split(b"\\n")[:-1]] for text in seen]
            steps = [[e for e in own if e["event"] != "alive"] for own in events]
            done = [own[-1].get("result") if own else None for own in steps]
            for rank, code in enumerate(codes):
                if code not in (None, 3) and done[rank] is None:
                    return (rank, "died"), None
            if None not in done and None not in codes:
                return None, done
            now = time.monotonic()
            for rank in range(workers):
                limit = heartbeat_timeout if steps[rank] else start_timeout
                if codes[rank] is None and now - changed[rank] > limit:
                    return (rank, "frozen"), None
            counts = [len(own) for own in steps]
            if counts != before or 0 in counts:
                before, moved = counts, now
            if now - moved > progress_timeout:
                return (counts.index(min(counts)), "silent"), None
            time.sleep(0.03)
    finally:
        for process in processes:
            process.kill()
            process.wait()
"""
)


def reference() -> str:
    """The module of the solution."""
    return solution(NOTEBOOK)


def hidden_case() -> dict[str, Any]:
    """The numbers of the hidden tests."""
    tree = ast.parse(source(NOTEBOOK, "check"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    [case] = [call.keywords for call in calls if call.keywords]
    return {str(word.arg): ast.literal_eval(word.value) for word in case}


def changed(*pairs: tuple[str, str]) -> str:
    """The reference solution with some texts replaced."""
    return replace(reference(), *pairs)


def right() -> dict[str, str]:
    """Four designs that reach all goals."""
    return {"selectors": reference(), "threads": THREADS, "asyncio": ASYNCIO, "files": FILES}


def wrong() -> dict[str, Wrong]:
    """Modules with one fault each, which is named in the message."""
    frozen = "if not worker.ended and now - worker.heard_at > timeout:"
    silent = "if now - progress_at > progress_timeout:"
    selecting = "for key, _events in selector.select(0.05):"
    killing = "            worker.process.kill()\n"
    waiting = "            worker.process.wait()\n            worker.process.stdout.close()\n"
    read = "        data = self.process.stdout.read()\n"
    return {
        "looks at the processes only": Wrong(
            changed((frozen, "if False:"), (silent, "if False:")),
            13,
            (
                "supervise was still running after 2 starts of the group",
                "counts as frozen",
                "A worker that hangs still sends heartbeats",
            ),
        ),
        "takes heartbeats for progress": Wrong(
            changed(('self.progress += message["event"] != "alive"', "self.progress += 1")),
            17,
            ("supervise was still running", "A worker that hangs still sends heartbeats"),
        ),
        "blames the first that ended": Wrong(
            changed(
                (" and self.process.wait() != LOST_PEER", ""),
                (selecting, f"time.sleep(0.3)\n                {selecting}"),
            ),
            13,
            ("Exit code 3 means that a worker has lost its connection to another one",),
        ),
        "blames worker 0 for a hang": Wrong(
            changed(("return slowest.rank", "return 0")),
            17,
            ("supervise returned the faults [(0, 'silent'), (0, 'silent')]", "behind the others"),
        ),
        "one deadline for the start": Wrong(
            changed(
                ("heartbeat_timeout if worker.progress else start_timeout", "heartbeat_timeout")
            ),
            18,
            (
                "supervise returned the faults [(1, 'frozen')",
                "heartbeat_timeout starts with a worker's first message",
            ),
        ),
        "progress counts from the launch": Wrong(
            changed((" or not all(worker.progress for worker in self.workers)", "")),
            16,
            ("(1, 'silent')", "progress_timeout only when all workers have sent theirs"),
        ),
        "starts from the beginning": Wrong(
            changed(("newest_checkpoint(Path(folder), workers))", "0)")),
            17,
            ("start 2 of the group resumes from step 4", "resumed from step 0"),
        ),
        "sorts steps as texts": Wrong(
            changed(("sorted(steps, reverse=True)", "sorted(steps, key=str, reverse=True)")),
            17,
            ("start 4 of the group resumes from step 12", "resumed from step 8"),
        ),
        "looks at one file": Wrong(
            changed(("for rank in range(workers)):", "for rank in [0]):")),
            17,
            ("start 2 of the group resumes from step 4", "resumed from step 8"),
        ),
        "ignores the checksum": Wrong(
            changed(
                ("return hashlib.sha256(body).hexdigest().encode() == digest", "return bool(body)")
            ),
            17,
            ("start 3 of the group resumes from step 8", "resumed from step 12"),
        ),
        "terminates": Wrong(
            changed(("worker.process.kill()", "worker.process.terminate()")),
            16,
            (
                "A frozen process does not react to SIGTERM",
                "supervise was still running after 1 start",
            ),
        ),
        "reads whole lines": Wrong(
            changed((read, "        data = self.process.stdout.readline()\n")).replace(
                "        os.set_blocking(self.process.stdout.fileno(), False)\n", ""
            ),
            18,
            ("supervise was still running after 2 starts", "only part of a line"),
        ),
        "never gives up": Wrong(
            changed(("while len(faults) <= max_restarts:", "while True:")),
            18,
            ("supervise was still running after", "Return at fault number 3, without another"),
        ),
        "gives up too early": Wrong(
            changed(("while len(faults) <= max_restarts:", "while len(faults) < max_restarts:")),
            6,
            (
                "supervise returned the results None",
                "the group restarts after fault number 2, too. Only fault number 3",
                "The run ends at fault number 3",
            ),
        ),
        "leaves workers": Wrong(
            changed(
                (killing, "            pass\n"),
                (
                    waiting,
                    "            if worker.ended:\n    " + waiting.replace("\n  ", "\n      "),
                ),
            ),
            18,
            ("is still running", "in a finally clause"),
        ),
        "waits for no process": Wrong(
            changed((waiting, "            worker.process.stdout.close()\n")),
            18,
            ("is a zombie", "Call wait() for every process"),
        ),
        "fills the pipe of standard error": Wrong(
            changed(("stderr=subprocess.DEVNULL", "stderr=subprocess.PIPE")),
            18,
            ("for standard error full",),
        ),
        "raises after the last fault": Wrong(
            changed(('return {"results": None, "faults": faults}', "raise RuntimeError(faults)")),
            18,
            ("supervise raised RuntimeError", "(supervisor.py, line"),
        ),
        "keeps its port": Wrong(
            changed(
                ("    with socket.socket() as probe:\n", "    for probe in [socket.socket()]:\n"),
                ("        return probe", "        KEPT.append(probe)\n        return probe"),
            )
            + "\n\nKEPT = []\n",
            0,
            ("A worker ended with exit code 4, because its port was in use",),
        ),
        "gives up one fault late": Wrong(
            changed(
                ("while len(faults) <= max_restarts:", "while len(faults) <= max_restarts + 1:")
            ),
            18,
            ("max_restarts is 2 in this run", "The run ends at fault number 3"),
        ),
        "raises after the first fault": Wrong(
            changed(("        faults.append(fault)", "        raise RuntimeError(fault)")),
            4,
            ("supervise raised RuntimeError", "A run with a fault must return first"),
        ),
        "returns a list": Wrong(
            changed(('return {"results": results, "faults": faults}', "return results")),
            0,
            ('supervise returns a dict with "results" and "faults"',),
        ),
    }


DESIGNS = Designs(
    NAME,
    right(),
    wrong(),
    empty="def supervise(*arguments, **names):\n    raise NotImplementedError()\n",
    short={  # runs without a fault are trivially right
        "workers": 2,
        "steps": 4,
        "save_every": 2,
        "start_timeout": 20.0,
        "heartbeat_timeout": 0.4,
        "progress_timeout": 0.5,
        "killed": [(1, "killed", "compute", 2)],
        "start": [],
        "frozen": [(0, "frozen", "message", 2)],
        "silent": [],
        "saving": [(1, "killed", "save", 4, "digit")],
        "slow": [],
        "gives_up": (1, "crashed", "compute", 2),
        "max_restarts": 0,
    },
    circles=1 + 9,
    label=("with N = 8 (formula 1.5)",),
    races=("raises after the first fault",),  # each error counts as a reason to repeat a run
)
