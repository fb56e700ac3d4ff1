"""The adapters: how a process calls the student's module, with one function for each project.

An adapter has the name of its project. It opens the student's object, whose methods are then called
by `group.ProcessGroup.call`. This is all that a project requires of a design.
"""

from __future__ import annotations

import json
import socket
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from helpers.course.projects.collectives import Collectives
from helpers.course.projects.data_parallel_network import Training
from helpers.course.projects.model_parallel_network import Process
from helpers.course.projects.sharded_adam_replica import Replica

Address = tuple[str, int]


class Place(NamedTuple):
    """The place of a process in its group.

    Attributes:
      rank: the number of the process, from 0.
      listener: a socket that listens at this process's address, so other processes can connect
        before this one is ready.
      addresses: the host and port of every process, in the order of the ranks.
      timeout: the seconds after which waiting for another process is an error.
    """

    rank: int
    listener: socket.socket
    addresses: list[Address]
    timeout: float


def ring_all_reduce(module: ModuleType, place: Place) -> Any:
    """Project 1: an object with `all_reduce(array)` and `close()`."""
    return module.connect(place.rank, place.listener, place.addresses, place.timeout)


def data_parallel(module: ModuleType, place: Place) -> Training:
    """Project 2: an object with `train(network, batches, learning_rate, bucket_bytes)`."""
    trainer = module.connect(place.rank, place.listener, place.addresses, place.timeout)
    return Training(trainer, place.rank, place.addresses[place.rank][0])


def sharded_adam(module: ModuleType, place: Place) -> Any:
    """Project 3: an object with `step(gradients)`, `save(folder)` and `load(folder)`."""
    place.listener.settimeout(place.timeout)
    group = Collectives(place.rank, len(place.addresses), place.listener)
    return Replica(module.create_optimizer, group)


def model_parallel(module: ModuleType, place: Place) -> Process:
    """Project 4: an object with `train_stage(...)` and `create_block(...)`."""
    worker = module.connect(place.rank, place.listener, place.addresses, place.timeout)
    return Process(worker, place.rank, len(place.addresses), place.addresses[place.rank][0])


def parameter_server(module: ModuleType, place: Place) -> Any:
    """Project 5: an object with `serve` in process 0, and else with `pull`, `push` and `close`."""
    if place.rank:
        return module.connect(place.rank, place.addresses[0])
    return ParameterServer(module, place)


class ParameterServer(NamedTuple):
    """The process that holds the parameters of project 5."""

    module: ModuleType
    place: Place

    def serve(self, parameters: Any, bound: Any) -> Any:
        """Runs the student's server, which returns the final parameters."""
        workers = len(self.place.addresses) - 1
        return self.module.serve(self.place.listener, workers, int(bound), parameters)


def supervisor(module: ModuleType, place: Place) -> Any:
    """Project 6: an object with `supervise(arguments)`, whose arguments and result are JSON."""
    return Supervisor(module)


class Supervisor(NamedTuple):
    """The process that starts and watches the workers of project 6."""

    module: ModuleType

    def supervise(self, arguments: Any) -> Any:
        """Runs the student's supervisor."""
        returned = self.module.supervise(**json.loads(arguments.tobytes()))
        return np.frombuffer(json.dumps(returned, default=repr).encode(), "uint8")
