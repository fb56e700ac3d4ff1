"""Project 6, the program that the student's supervisor starts: one worker of a small training job.

    COMMAND --rank 1 --port 41234 --resume 8

Workers add up a number in each step, as in a synchronous all-reduce. Therefore all of them wait if
one makes no progress. A worker writes its messages as lines of JSON to its standard output:

    {"event": "started"}               Before it connects to the others.
    {"event": "alive"}                 From a thread, several times in each heartbeat timeout.
    {"event": "reached", "step": 7}    It has computed step 7, and now waits for the others.
    {"event": "step", "step": 7}       All workers have reached step 7.
    {"event": "saved", "step": 8}      Its file of checkpoint 8 is complete.
    {"event": "done", "result": 123}   Its final state. It then ends with exit code 0.

With `--control`, it asks a `fault_injector.FaultInjector` which faults to show. The worker ends
when that connection closes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from helpers.system import parent_death

CRASHED, LOST_PEER, PORT_BUSY, DAMAGED, OTHER_STEP = 1, 3, 4, 5, 6  # exit codes
RECORD = struct.Struct("!qq")  # a step and a number
HOST, RETRY = "127.0.0.1", 0.02
MODULUS = 2**31 - 1
LOG_LINE = b"one of many lines that a library writes to standard error\n"
START, COMPUTE, MESSAGE, SAVE = "start", "compute", "message", "save"  # phases of a fault
QUIT, EXITS = "quit", "crashed"  # kinds of faults that end a worker without a signal


def initial_state(rank: int, seed: int) -> int:
    """The state of a worker before its first step."""
    return (seed * 7919 + rank + 1) % MODULUS


def contribution(state: int, step: int) -> int:
    """The number that a worker computes from its state."""
    return (state * 48271 + step) % MODULUS


def next_state(state: int, total: int, rank: int) -> int:
    """The state after a step, from the sum of all contributions."""
    return (state + (rank + 1) * total) % MODULUS


def final_states(workers: int, steps: int, seed: int) -> list[int]:
    """The states of all workers after an undisturbed run."""
    states = [initial_state(rank, seed) for rank in range(workers)]
    for step in range(1, steps + 1):
        total = sum(contribution(state, step) for state in states)
        states = [next_state(state, total, rank) for rank, state in enumerate(states)]
    return states


def checkpoint_path(folder: Path, step: int, rank: int) -> Path:
    """The file of a worker that belongs to the checkpoint of a step."""
    return folder / f"step-{step}-worker-{rank}.json"


def encode_checkpoint(step: int, state: int) -> bytes:
    """A line with the SHA-256 of all following bytes, then JSON."""
    body = json.dumps({"step": step, "state": state}).encode()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def damage(content: bytes, how: str) -> bytes:
    """What a write that was interrupted leaves: "empty", "half", or a wrong "digit"."""
    if how == "digit":  # valid JSON of the right length
        return content[:-2] + str((int(content[-2:-1]) + 1) % 10).encode() + content[-1:]
    return content[: len(content) // 2 if how == "half" else 0]


def read_checkpoint(path: Path) -> int:
    """The state in a file.

    Raises:
      ValueError: the file is damaged.
    """
    digest, _newline, body = path.read_bytes().partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise ValueError(f"{path.name} is damaged")
    return int(json.loads(body)["state"])


class Messages:
    """The messages to the supervisor, with a heartbeat from a thread."""

    def __init__(self, interval: float, control: Control) -> None:
        self._lock, self._interval, self._control = threading.Lock(), interval, control

    def start(self) -> None:
        """Sends the first message, and then heartbeats."""
        self.send("started")
        threading.Thread(target=self._beat, daemon=True).start()

    def send(self, event: str, **values: int) -> None:
        """Sends a message as one line."""
        with self._lock:
            self._write(json.dumps({"event": event, **values}) + "\n")

    def freeze_within(self, event: str, step: int) -> None:
        """Sends a part of a message, and then nothing else."""
        line = json.dumps({"event": event, "step": step})
        with self._lock:
            self._write(line[: len(line) // 2])
            self._control.show_fault()

    def _beat(self) -> None:
        last = time.monotonic()
        while True:
            time.sleep(self._interval)
            self.send("alive")
            now = time.monotonic()
            self._control.report_gap(now - last)
            last = now

    @staticmethod
    def _write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


class Control:
    """The connection to the fault injector, or nothing if there is no address."""

    def __init__(self, address: str, **about: int) -> None:
        self._end: socket.socket | None = None
        self._lock = threading.Lock()
        self._largest_gap = 0.0
        self.plan: dict[str, Any] = {}
        if address:
            host, port = address.split(":")
            self._end = socket.create_connection((host, int(port)))
            self.report("hello", pid=os.getpid(), **about)
            with self._end.makefile("r") as lines:
                self.plan = json.loads(lines.readline() or "{}")
            os.dup2(self._end.fileno(), 0)  # nothing else arrives there, until it closes
            parent_death.die_with_parent()

    def report(self, event: str, **values: float) -> None:
        """Reports an event to the injector."""
        if self._end:
            with self._lock:
                self._end.sendall(json.dumps({"event": event, **values}).encode() + b"\n")

    def report_gap(self, seconds: float) -> None:
        """Reports the time between two heartbeats if it is the longest so far."""
        if seconds > self._largest_gap:
            self._largest_gap = seconds
            self.report("gap", seconds=seconds)

    def fault_at(self, phase: str, step: int) -> bool:
        """Whether this worker has a fault at this moment."""
        fault = self.plan.get("fault")
        return fault is not None and (fault["phase"], fault["step"]) == (phase, step)

    def show_fault(self) -> None:
        """Ends the worker, or waits for the signal of the injector, or stays silent."""
        kind = self.plan["fault"]["kind"]
        self.report("fault")
        if kind == QUIT:
            os._exit(0)
        if kind == EXITS:
            print("ValueError: this step failed", file=sys.stderr, flush=True)
            os._exit(CRASHED)
        while True:
            time.sleep(60)


class Peers:
    """The connections to the other workers. Worker 0 adds the numbers of all."""

    def __init__(self, rank: int, workers: int, port: int) -> None:
        if rank:
            self._ends = [_connect(port)]
            self._ends[0].sendall(RECORD.pack(rank, 0))
        else:
            self._ends = _accept(port, workers - 1)
        self._rank = rank

    def all_reduce(self, step: int, value: int) -> int:
        """The sum of the values of all workers. Waits for them without a deadline."""
        if self._rank:
            self._ends[0].sendall(RECORD.pack(step, value))
            return self._receive(self._ends[0], step)
        total = value + sum(self._receive(end, step) for end in self._ends)
        for end in self._ends:
            end.sendall(RECORD.pack(step, total))
        return total

    @staticmethod
    def _receive(end: socket.socket, step: int) -> int:
        other, value = RECORD.unpack(_read(end))
        if other != step:
            _exit(OTHER_STEP, f"this worker is at step {step}, another one at step {other}")
        return int(value)


def _connect(port: int) -> socket.socket:
    while True:
        with suppress(ConnectionError):  # worker 0 does not listen yet
            end = socket.create_connection((HOST, port))
            if end.getsockname() != end.getpeername():  # TCP may connect a socket to itself
                return end
            end.close()
        time.sleep(RETRY)


def _accept(port: int, count: int) -> list[socket.socket]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()
        ends = [listener.accept()[0] for _worker in range(count)]
    return sorted(ends, key=lambda end: RECORD.unpack(_read(end))[0])


def _read(end: socket.socket) -> bytes:
    data = b""
    while len(data) < RECORD.size:
        more = end.recv(RECORD.size - len(data))
        if not more:
            raise ConnectionError("another worker has closed its connection")
        data += more
    return data


def train(args: argparse.Namespace, control: Control, messages: Messages) -> int:
    """Runs all steps after the one to resume from, and returns the final state."""
    rank, plan = args.rank, control.plan
    state = initial_state(rank, args.seed)
    if args.resume:
        state = read_checkpoint(checkpoint_path(args.folder, args.resume, rank))
    peers = Peers(rank, args.workers, args.port)
    for step in range(args.resume + 1, args.steps + 1):
        slow = step <= plan.get("slow_steps", 0)
        time.sleep(plan["step_seconds"] if slow else args.step_seconds)
        sys.stderr.buffer.write(LOG_LINE * plan.get("log_lines", 0))
        value = contribution(state, step)
        if control.fault_at(COMPUTE, step):
            control.show_fault()
        if control.fault_at(MESSAGE, step):
            messages.freeze_within("reached", step)
        messages.send("reached", step=step)
        state = next_state(state, peers.all_reduce(step, value), rank)
        messages.send("step", step=step)
        control.report("step")
        if step % args.save_every == 0:
            save(args, control, step, state)
            messages.send("saved", step=step)
    return state


def save(args: argparse.Namespace, control: Control, step: int, state: int) -> None:
    """Writes this worker's file of a checkpoint, under its final name from the first byte on."""
    path, content = checkpoint_path(args.folder, step, args.rank), encode_checkpoint(step, state)
    if control.fault_at(SAVE, step):
        path.write_bytes(damage(content, control.plan["fault"]["damage"]))
        control.show_fault()
    path.write_bytes(content)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments of the command. A supervisor adds only the first three."""
    parser = argparse.ArgumentParser(prog="worker", allow_abbrev=False)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--port", type=int, required=True, help="on which worker 0 listens")
    parser.add_argument("--resume", type=int, required=True, help="the step of a checkpoint, or 0")
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--save-every", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--beat", type=float, default=0.1, help="seconds between heartbeats")
    parser.add_argument("--step-seconds", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--control", default="", help="host:port of a fault injector")
    return parser.parse_args(arguments)


def main() -> None:
    """Runs the worker."""
    args = parse()
    control = Control(args.control, rank=args.rank, resume=args.resume, port=args.port)
    time.sleep(control.plan.get("start_delay", 0))
    messages = Messages(args.beat, control)
    messages.start()
    try:
        state = train(args, control, messages)
    except ConnectionError as error:
        _exit(LOST_PEER, f"ConnectionError: {error}")
    except OSError as error:
        control.report("port_busy")
        _exit(PORT_BUSY, f"OSError: {error}")
    except ValueError as error:
        _exit(DAMAGED, f"ValueError: {error}")
    messages.send("done", result=state)
    os._exit(0)  # the thread may be writing


def _exit(code: int, text: str) -> NoReturn:
    print(text, file=sys.stderr, flush=True)
    os._exit(code)


if __name__ == "__main__":
    main()
