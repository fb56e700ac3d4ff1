"""What was done to a run, or befell it, and what came of it: a line each."""

from __future__ import annotations

import html
from typing import NamedTuple

from helpers.i18n import _, join_clauses, join_phrases, ngettext, number
from helpers.messages.events import Deed, Event, Kind

ANY = ""  # whose step is awaited, where it is that of no task in particular
STYLE = "text-align: left; vertical-align: top"


class Line(NamedTuple):
    """One line of a story: `what` happened to, or was told of, a `task`, as "worker 1".

    Attributes:
      seconds: since the run began.
    """

    seconds: float
    task: str
    what: str


class Story(list[Line]):
    """The lines, in order of time: harm that was done, how it was noticed, the next step."""

    def __init__(self) -> None:
        super().__init__()
        self._step = 0  # the last one that was reported
        self._reporters: set[str] = set()  # tasks that report steps
        self._harmed: float | None = None  # when, if nobody has noticed yet
        self._awaited: dict[str, float] = {}  # since when a step is; by the task, or ANY
        self._restarted = False
        self._returns: dict[str, float] = {}  # since when a new process is on its way

    def add(self, event: Event, seconds: float) -> None:
        """Takes in an event of the run, that many seconds after the run began."""
        task = event.get("task", "")
        match event["event"]:
            case Kind.HARM:
                self.append(Line(seconds, task, _deed(event["deed"], event["how"])))
                self._harmed = seconds
                if event["deed"] in (Deed.THAW, Deed.JOIN, Deed.FREE_DISK):
                    self._harmed = None
                    self._awaited[task if task in self._reporters else ANY] = seconds
            case Kind.RESTART:
                then = _("all processes were started again")
                self.append(Line(seconds, task, self._noticed(seconds, event["reason"], then)))
                self._awaited, self._returns, self._restarted = {ANY: seconds}, {}, True
            case Kind.REPLACED:
                then = _("it was started again, and the others went on")
                self.append(Line(seconds, task, self._noticed(seconds, event["reason"], then)))
                self._returns[task] = seconds
            case Kind.READY if task in self._returns:
                back = _("back after {seconds} s")
                since = seconds - self._returns.pop(task)
                self.append(Line(seconds, task, back.format(seconds=_span(since))))
            case Kind.STEP:
                self._take_step(event["step"], task, seconds)

    def _noticed(self, seconds: float, reason: str, then: str) -> str:
        harmed, self._harmed = self._harmed, None
        if harmed is None:
            noticed = _("noticed: {reason}").format(reason=reason)
        else:
            message = _("noticed {seconds} s later: {reason}")
            noticed = message.format(seconds=_span(seconds - harmed), reason=reason)
        return join_clauses([noticed, then])

    def _take_step(self, step: int, task: str, seconds: float) -> None:
        self._reporters.add(task)
        for awaited in (ANY, task):
            since = self._awaited.get(awaited)
            if since is not None and seconds > since:
                del self._awaited[awaited]
                self.append(Line(seconds, task, self._went_on(step, seconds - since)))
        self._step = max(self._step, step)

    def _went_on(self, step: int, seconds: float) -> str:
        message = _("the next step is {step}, {seconds} s later")
        phrases = [message.format(step=step, seconds=_span(seconds))]
        if self._restarted:
            phrases.append(_lost(self._step - step + 1))
            self._restarted, self._step = False, step
        return join_phrases(phrases)

    def __repr__(self) -> str:
        texts = [(time_of(line.seconds), line.task, line.what) for line in self]
        times = max((len(time) for time, _task, _what in texts), default=0)
        tasks = max((len(task) for _time, task, _what in texts), default=0)
        return "\n".join(f"{time:>{times}}  {task:<{tasks}}  {what}" for time, task, what in texts)

    def _repr_html_(self) -> str:
        rows = (
            "".join(f'<td style="{STYLE}">{html.escape(text)}</td>' for text in texts)
            for texts in ((time_of(line.seconds), line.task, line.what) for line in self)
        )
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def time_of(seconds: float) -> str:
    """A time in words, as "2.5 s"."""
    return _("{seconds} s").format(seconds=number(seconds, ".1f"))


def _deed(deed: str, how: dict[str, float]) -> str:
    """What was done to a process, in words."""
    match deed:
        case Deed.KILL:
            what = _("killed (SIGKILL)")
        case Deed.FREEZE:
            what = _("frozen (SIGSTOP)")
        case Deed.THAW:
            what = _("thawed (SIGCONT)")
        case Deed.SLOW if how["factor"] > 1:
            what = _("slowed down to 1/{factor} of its speed")
        case Deed.SLOW:
            what = _("at full speed again")
        case Deed.CUT_OFF:
            what = _("cut off: its network cable is pulled")
        case Deed.JOIN:
            what = _("joined again: its network cable is plugged in")
        case Deed.FILL_DISK:
            what = _("its disk is full: no write to a file succeeds")
        case Deed.FREE_DISK:
            what = _("its disk has room again")
        case _delay:
            return _("its next start is {seconds} s late").format(**_numbers(how))
    if "seconds" in how:
        what = join_phrases([what, _("for {seconds} s")])
    return what.format(**_numbers(how))


def _lost(steps: int) -> str:
    if steps <= 0:
        return _("no step was lost")
    return ngettext("{count} step was lost", "{count} steps were lost", steps).format(count=steps)


def _span(seconds: float) -> str:
    return number(seconds, ".1f" if seconds >= 1 else ".2f")


def _numbers(how: dict[str, float]) -> dict[str, str]:
    return {name: number(value, "g") for name, value in how.items()}
