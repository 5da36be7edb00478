"""/v1/work/… for `manage.py runserver` and the OpenAPI document. In production the ASGI edge answers these paths.

The same parsers and services as the edge, so the same answers (one test holds the two together), with one difference: a
poll costs a thread while it waits, hears only of what this process does, and is held for `MOST_HOLD_SECONDS` at most.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import Conflict, CroniqError, TooLarge
from runners.api import authentication
from runners.api.views import ApiView
from scheduler.api import openapi, work_schema
from scheduler.api.work.ack import finish_owned, results
from scheduler.api.work.claiming import claim_round
from scheduler.api.work.events import append_owned
from scheduler.api.work.http import SMALL_BODY_BYTES, WrongMethod, read_texts_of
from scheduler.api.work.parsing import parse_acks, parse_lines, parse_poll, parse_renewal, run_id_of
from scheduler.api.work.renew import renew_owned
from scheduler.api.work.waiting import Told
from scheduler.domain.polls import OpenPoll, PollRequest
from scheduler.domain.work import Ask
from scheduler.metrics import traces
from scheduler.queries.assignments import JobDirectory, instant_text
from scheduler.queries.holders import current_among, holdings_of
from scheduler.queries.lanes import LaneDirectory, Rotation
from scheduler.services.poll import open_poll
from scheduler.services.wake import subscribe

MOST_HOLD_SECONDS = 5.0
RECHECK_SECONDS = 0.5
"""How often a poll that waits looks again for what other processes did: nobody listens for their signals here."""
LISTED_DUE_SECONDS = 0.1


class WorkView(ApiView):
    """Takes the body as it is: what it means is the parser's business, and its type is nobody's."""

    parser_classes: list[Any] = []
    takes_any_query = True
    throttle_classes: list[Any] = []

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if request.method != "POST":
            raise WrongMethod("Only POST is answered here.")
        super().initial(request, *args, **kwargs)

    # From Django's request and past its limit, which is for pages: an error text of megabytes is cut, not refused.

    def texts(self) -> bytes:
        return read_texts_of(self.request._request)

    def small_body(self) -> bytes:
        body = self.request._request.read(SMALL_BODY_BYTES + 1)
        if len(body) > SMALL_BODY_BYTES:
            raise TooLarge(f"The body is larger than {SMALL_BODY_BYTES // (1024 * 1024)} MiB.")
        return body


class Ack(WorkView):
    required_scope = {"POST": "work:ack"}

    @openapi.documented(
        "ackWork",
        "Say how an attempt ended. The same again is 200; another's, another attempt or another verdict is 409. An "
        "array of 1 to 500 of them is answered 200 with `results`, one in the place of each: `{execution_id, status}`, "
        "or the `error` and `message` of its refusal.",
        {200: work_schema.AckTaken},
        body=work_schema.AckBody,
        refuses=(400, 404, 409, 413),
    )
    def post(self, request: Request) -> Response:
        said = parse_acks(self.texts())
        acks = said if isinstance(said, list) else [said]
        answers = finish_owned([(ack, self.principal) for ack in acks], self.now)
        if isinstance(said, list):
            return Response({"results": results(acks, answers)})
        if isinstance(answers[0], CroniqError):
            raise answers[0]
        return Response({"status": "ok"})


class Renew(WorkView):
    required_scope = {"POST": "work:renew"}

    @openapi.documented(
        "renewWork",
        "Keep a claimed run for one more lease.",
        {200: work_schema.RenewAnswer},
        body=work_schema.RenewBody,
        refuses=(400, 404, 409, 413),
    )
    def post(self, request: Request) -> Response:
        expires_at = renew_owned(parse_renewal(self.small_body()), self.principal, self.now)
        return Response({"lease_expires_at": instant_text(expires_at)})


class Events(WorkView):
    required_scope = {"POST": "work:events"}

    @openapi.documented(
        "sendEvents",
        "Lines that the handler of a claimed run says, in order: 1 to 100.",
        {200: work_schema.EventsAnswer},
        body=work_schema.EventBody(many=True),
        refuses=(400, 404, 409, 413),
    )
    def post(self, request: Request, execution_id: str) -> Response:
        run_id = run_id_of(execution_id)
        lines, runner_id = parse_lines(self.texts())
        return Response({"accepted": append_owned(run_id, lines, runner_id, self.principal, self.now)})


class Poll(WorkView):
    required_scope = {"POST": "work:poll"}

    @openapi.documented(
        "pollWork",
        "Ask for work: renews what is listed, says what of it is not held any more, and waits up to 30 s for runs.",
        {200: work_schema.PollAnswer},
        body=work_schema.PollBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        poll = parse_poll(self.small_body())
        arrived_at = time.monotonic()
        woken = threading.Event()
        unsubscribe = subscribe(lambda signal: woken.set())
        try:
            opened = open_poll(poll, self.principal, self.now)
            work, cancel = self._wait(poll, opened, woken, arrived_at)
        finally:
            unsubscribe()
        return Response({"work": work, "cancel": cancel})

    def _wait(
        self, poll: PollRequest, opened: OpenPoll, woken: threading.Event, arrived_at: float
    ) -> tuple[list[dict[str, Any]], list[str]]:
        cancels = {poll.listed[run_id] for run_id in opened.cancel} | set(poll.unknown)
        until = arrived_at + min(settings.CRONIQ_POLL_HOLD_SECONDS, MOST_HOLD_SECONDS)
        _told_again(opened, poll, cancels)
        work: list[dict[str, Any]] = []
        while poll.free:
            woken.clear()
            work, is_listed_due = self._claim(poll, opened)
            if work or _is_news(opened, cancels) or time.monotonic() >= until:
                break
            if is_listed_due:
                # The next poll, which does not list it, can have it; but not so soon that the two would spin.
                woken.wait(max(0.0, arrived_at + LISTED_DUE_SECONDS - time.monotonic()))
                break
            woken.wait(min(RECHECK_SECONDS, max(0.0, until - time.monotonic())))
            cancels = _cancels_now(poll, opened)
        return work, _to_send(opened, cancels)

    def _claim(self, poll: PollRequest, opened: OpenPoll) -> tuple[list[dict[str, Any]], bool]:
        lanes = LaneDirectory()
        lanes.refresh()
        served = lanes.lanes_for(poll.capabilities, poll.runner_id, self.principal.tenant)
        late = lanes.late_for(poll.capabilities, poll.runner_id, served)
        turns = _rotation.in_turn(served, lanes)
        ask = Ask(opened.holder_id, poll.free, frozenset(poll.listed))
        done = claim_round(authentication.CLOCK, JobDirectory(), [ask], turns, late)
        _rotation.note(turns, done.served, lanes)
        answer = done.answers[0]
        traces.tell(answer.spans if answer else ())
        return (answer.work if answer else []), not done.listed_due.isdisjoint(poll.listed)


def _cancels_now(poll: PollRequest, opened: OpenPoll) -> set[str]:
    """Return the listed texts that the instance does not hold; 409 if it was deposed while it waited."""
    if opened.holder_id not in current_among([opened.holder_id]):
        raise Conflict(
            f"Another process has taken over the runner {poll.runner_id!r}. Stop one of the two, or give each its own "
            "runner_id.",
            code="instance_deposed",
        )
    held = holdings_of([opened.holder_id])[opened.holder_id].claims if poll.listed else {}
    return {text for run_id, text in poll.listed.items() if run_id not in held} | set(poll.unknown)


# What this process's polls were told; `Told` is not made for several threads.
_told, _rotation = Told(), Rotation()
_lock = threading.Lock()


def _told_again(opened: OpenPoll, poll: PollRequest, cancels: set[str]) -> None:
    with _lock:
        _told.hold_again(opened.holder_id, set(poll.listed.values()) - cancels)


def _is_news(opened: OpenPoll, cancels: set[str]) -> bool:
    with _lock:
        return bool(_told.news(opened.holder_id, cancels))


def _to_send(opened: OpenPoll, cancels: set[str]) -> list[str]:
    with _lock:
        return _told.to_send(opened.holder_id, sorted(cancels), time.monotonic())
