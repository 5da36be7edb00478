"""How a run came to where it is: the way through the table of transitions, drawn and told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from scheduler.domain.transitions import EDGES, WAITING, State
from scheduler.queries.run_compare import due_at
from scheduler.queries.runs import AttemptRow, RunDetail
from scheduler.templatetags.croniq import state_word

WIDTH, HEIGHT = 640, 214
_BOX = (116, 30)
_PLACES = {
    "queued": (8, 72),
    "claimed": (208, 32),
    "stopping": (208, 118),
    "completed": (500, 4),
    "failed": (500, 48),
    "dead": (500, 92),
    "cancelled": (500, 136),
    "skipped": (500, 180),
}
"""What waits is one box, whatever it waits for: its rows do not say what it waited for before."""
MOST_STEPS = 12


@dataclass(frozen=True, slots=True)
class Box:
    """A state, in SVG units. ``kind``: here, been (it was there before) or blank."""

    name: str
    x: int
    y: int
    kind: str

    @property
    def text_x(self) -> int:
        return self.x + _BOX[0] // 2

    @property
    def text_y(self) -> int:
        return self.y + _BOX[1] // 2 + 4


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge of the table; ``times`` it was gone (0: never)."""

    start: str
    end: str
    path: str
    label_x: int
    label_y: int
    times: int


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened, or (``is_to_come``) is to happen; ``at`` None where that is not known any more."""

    at: datetime | None
    words: str
    is_to_come: bool = False


@dataclass(frozen=True)
class Diagram:
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    words: str
    width: int = WIDTH
    height: int = HEIGHT
    box_width: int = _BOX[0]
    box_height: int = _BOX[1]


def projected_edges() -> set[tuple[str, str]]:
    """The edges of the table of transitions between the boxes of the diagram."""
    return {
        (_box(state), _box(target))
        for (state, _event), targets in EDGES.items()
        for target in targets
        if _box(state) != _box(target)
    }


def diagram_of(detail: RunDetail) -> Diagram:
    gone = list(moves_of(detail))
    times = Counter(gone)
    here = gone[-1][1] if gone else "queued"
    been = {"queued", *(end for _, end in gone)}
    boxes = tuple(
        Box(name, x, y, "here" if name == here else "been" if name in been else "blank")
        for name, (x, y) in _PLACES.items()
    )
    arrows = sorted((_arrow(start, end, times[start, end]) for start, end in projected_edges()), key=_by_times)
    words = state_word(here)
    return Diagram(boxes, tuple(arrows), _("State diagram: the run is in the state “{state}”").format(state=words))


def moves_of(detail: RunDetail) -> Iterator[tuple[str, str]]:
    """The edges that the run has gone, in order."""
    run = detail.row
    for attempt in detail.attempts:
        yield "queued", "claimed"
        is_last = attempt is detail.attempts[-1]
        if attempt.outcome == "running":
            return
        if is_last and run.completed_at is not None:
            yield from _ending(run.state, attempt, is_winding_down=run.is_winding_down)
            return
        yield "claimed", "queued"
    if run.completed_at is not None:
        yield "queued", run.state


def steps_of(detail: RunDetail, now: datetime) -> list[Step]:
    """What happened to the run by its rows, oldest first; of very many the first two and the last ones."""
    steps = list(_steps(detail, now))
    if len(steps) <= MOST_STEPS:
        return steps
    left_out = len(steps) - MOST_STEPS + 1
    middle = Step(None, _("{number} steps more").format(number=left_out))
    return [*steps[:2], middle, *steps[-(MOST_STEPS - 3) :]]


def _steps(detail: RunDetail, now: datetime) -> Iterator[Step]:
    run = detail.row
    made = {"scheduled": _("Planned"), "triggered": _("Asked for"), "replay": _("Made to be done once more")}
    yield Step(run.created_at, made[run.kind])
    if due_at(run) != run.created_at:
        is_to_come = due_at(run) > now
        yield Step(due_at(run), _("Falls due") if is_to_come else _("Fell due"), is_to_come)
    for attempt in detail.attempts:
        begun = _("Attempt {number} began on {runner}").format(number=attempt.attempt, runner=attempt.runner_id or "–")
        yield Step(attempt.claimed_at, begun)
        if attempt.outcome != "running":
            yield Step(attempt.ended_at, _ended(attempt))
    if run.completed_at is None and run.state == "queued" and run.attempt and run.fire_at is not None:
        yield Step(run.fire_at, _("Attempt {number} is due").format(number=run.attempt + 1), run.fire_at > now)
    if run.completed_at is not None and not _tells_the_end(detail):
        yield Step(run.completed_at, state_word(run.state))


def _tells_the_end(detail: RunDetail) -> bool:
    """Whether the last attempt's end is the run's, in the same words."""
    last = detail.attempts[-1] if detail.attempts else None
    return last is not None and last.outcome == detail.row.state and last.ended_at == detail.row.completed_at


def _ended(attempt: AttemptRow) -> str:
    words = {
        "completed": _("Attempt {number} completed"),
        "failed": _("Attempt {number} failed"),
        "timed_out": _("Attempt {number} timed out"),
        "lost": _("Attempt {number} was lost"),
        "cancelled": _("Attempt {number} was cancelled"),
    }
    return words[attempt.outcome].format(number=attempt.attempt)


def _ending(verdict: str, attempt: AttemptRow, *, is_winding_down: bool) -> Iterator[tuple[str, str]]:
    """From running to the verdict: a handler that was told to stop is waited for in between."""
    if verdict == "cancelled" or attempt.outcome == "timed_out":
        yield "claimed", "stopping"
        if not is_winding_down:
            yield "stopping", verdict
    else:
        yield "claimed", verdict


def _box(state: State) -> str:
    return "queued" if state in WAITING else state.value


def _by_times(arrow: Arrow) -> tuple[int, str, str]:
    return arrow.times, arrow.start, arrow.end  # what was gone is drawn over what was not


def _arrow(start: str, end: str, times: int) -> Arrow:
    (x1, y1), (x2, y2) = _PLACES[start], _PLACES[end]
    width, height = _BOX
    if (start, end) == ("claimed", "queued"):
        x, y = x1, y1 + height - 6
        to_x, to_y = x2 + width, y2 + height - 8
        path = f"M{x} {y}C{x - 40} {y + 14} {to_x + 34} {to_y} {to_x + 2} {to_y}"
        return Arrow(start, end, path, x - 40, y + 34, times)
    if (start, end) == ("skipped", "queued"):
        to_x, to_y = x2 + 30, y2 + height
        path = f"M{x1} {y1 + 22}C{x1 - 200} {y1 + 34} {to_x} {to_y + 120} {to_x} {to_y + 2}"
        return Arrow(start, end, path, 150, 206, times)
    if start == "queued" and end != "claimed":
        x, y = x1 + width - 30, y1 + height
        to_x, to_y = x2 - 2, y2 + height // 2
        path = f"M{x} {y}C{x} {to_y} {x + 60} {to_y} {to_x} {to_y}"
        return Arrow(start, end, path, (x + to_x) // 2 + 60, to_y - 5, times)
    x, y = x1 + width, y1 + height // 2
    to_x, to_y = x2 - 2, y2 + height // 2
    if (start, end) == ("claimed", "stopping"):
        x, y = x1 + width // 2, y1 + height
        return Arrow(start, end, f"M{x} {y}L{x} {y2 - 2}", x + 22, (y + y2) // 2 + 4, times)
    bend = (to_x - x) // 2
    path = f"M{x} {y}C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}"
    return Arrow(start, end, path, (x + to_x) // 2, (y + to_y) // 2 - 6, times)
