"""Ring all-reduce, round by round."""

from __future__ import annotations

from helpers.course.cost_model import rounds
from helpers.course.simulations.controls import slider, step_slider
from helpers.course.simulations.number_format import significant
from helpers.course.simulations.simulation import Simulation, View
from helpers.errors import ConfigError, check_count
from helpers.i18n import _, join_sentences, ngettext

MIN_WORKERS, MAX_WORKERS = 2, 6  # the numbers of workers that fit into the figure


def simulation(workers: int = 4) -> Simulation:
    """The states of a ring from round to round, with a slider for the number of workers.

    Args:
      workers: the initial number of workers.

    Raises:
      ConfigError: `workers` is not a whole number from 2 to 6.
    """
    _check(workers)
    return Simulation(
        _("Ring all-reduce, round by round"),
        draw,
        {
            "workers": slider(_("Workers"), range(MIN_WORKERS, MAX_WORKERS + 1), workers),
            "done": step_slider(
                _("Rounds done"), rounds(MAX_WORKERS), lambda values: rounds(values["workers"])
            ),
        },
    )


def draw(workers: int, done: int) -> View:
    """The ring after `done` rounds, as a drawing and a text.

    A ring with fewer rounds is shown in its final state. When the number of workers changes, `done`
    may briefly belong to the larger ring.
    """
    from helpers.course.figures import ring_all_reduce

    _check(workers)
    done = min(done, rounds(workers))
    return View(ring_all_reduce(workers, done), _sentence(workers, done))


def _check(workers: int) -> None:
    check_count("workers", workers, MIN_WORKERS)
    if workers > MAX_WORKERS:
        message = _("workers={workers} is more than the figure has room for: pass at most {most}.")
        raise ConfigError(message.format(workers=workers, most=MAX_WORKERS))


def _sentence(workers: int, done: int) -> str:
    half, last = workers - 1, rounds(workers)
    if done == 0:
        state = ngettext(
            "Each worker holds nothing but its own gradients, in {workers} part.",
            "Each worker holds nothing but its own gradients, in {workers} parts.",
            workers,
        )
    elif done < half:
        state = ngettext(
            "The fullest part of each worker is the sum of {terms} worker so far.",
            "The fullest part of each worker is the sum of {terms} workers so far.",
            done + 1,
        )
    elif done == half:
        state = _("Each worker now holds one part of the complete sum: reduce-scatter is over.")
    elif done < last:
        state = ngettext(
            "All-gather: each worker holds {complete} of {workers} part of the sum.",
            "All-gather: each worker holds {complete} of {workers} parts of the sum.",
            workers,
        )
    else:
        state = _("All workers hold the whole sum: all-gather is over.")
    sent = ngettext(
        "After {done} of {last} round each has sent {times} times the size of its gradients.",
        "After {done} of {last} rounds each has sent {times} times the size of its gradients.",
        last,
    )
    return join_sentences([sent, state] if done else [state]).format(
        workers=workers,
        done=done,
        last=last,
        terms=done + 1,
        complete=done - half + 1,
        times=significant(done / workers, digits=3),
    )
