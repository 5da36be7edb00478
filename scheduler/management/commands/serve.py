"""`manage.py serve`: the web server."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import tempfile
import threading
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection, connections
from django.utils.module_loading import import_string

from croniq_site.kernel import tracing
from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict
from croniq_site.kernel.garbage import Garbage
from croniq_site.kernel.loop import run_loop
from croniq_site.kernel.migrated import require_migrated
from croniq_site.kernel.service_manager import Member, ServiceManager, Voice, speak_for
from croniq_site.kernel.stop import StopToken, stop_on_signals
from runners.services.declared import apply_declared
from runners.services.heartbeats import beat, end_heartbeat, start_heartbeat
from runners.services.outages import note_outage
from scheduler.api.work.server import Server, listening_socket, url_of
from scheduler.metrics import siblings
from scheduler.services.missed import skip_missed
from scheduler.services.serving import take_the_only_server

HEARTBEAT_SECONDS = 2.0
MOST_SKIPPED = 10_000
"""Planned runs that a server looks at when it comes back; the reaper goes on with the rest."""
# By name: no app imports the site's modules.
APPLICATION = "croniq_site.asgi.application"


class Command(BaseCommand):
    help = "Serve the API, the long polls of runners and the pages. SIGTERM answers every waiting poll and exits."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=int, default=4000, help="0 takes a free one (default: %(default)s)")
        parser.add_argument("--processes", type=int, default=1, help="PostgreSQL only; one a core at most (default: 1)")

    def handle(self, *, host: str, port: int, processes: int, **options: object) -> None:
        self._check_arguments(port, processes)
        require_migrated()
        try:
            lock = take_the_only_server()
        except Conflict as refusal:
            raise CommandError(refusal.message) from None
        with lock or contextlib.nullcontext():
            try:
                apply_declared(settings.CRONIQ_API_CLIENTS, DatabaseClock().now())
            except Conflict as refusal:
                raise CommandError(refusal.message) from None
            self._serve_at(host, port, processes)

    def _serve_at(self, host: str, port: int, processes: int) -> None:
        try:
            listener = listening_socket(host, port)
        except OSError as error:
            raise CommandError(
                f"Cannot listen on {host} port {port}: {os.strerror(error.errno or 0)}. Choose another with --port."
            ) from None
        connections.close_all()  # a fork must not inherit one
        if processes == 1:
            self._serve(listener, ServiceManager())
        else:
            self._serve_in(processes, listener)

    def _check_arguments(self, port: int, processes: int) -> None:
        if not 0 <= port <= 65_535:
            raise CommandError("--port is a number from 0 to 65535.")
        if not 1 <= processes <= 64:
            raise CommandError("--processes is a number from 1 to 64.")
        if processes > 1 and connection.vendor != "postgresql":
            raise CommandError("SQLite is served by one process; --processes needs PostgreSQL.")

    def _serve(self, listener: socket.socket, voice: Voice) -> None:
        stop = StopToken()
        # uvicorn puts its own handlers in place while it runs and raises the signal again when it has stopped: it
        # must find these then, or a stop in good order would end as a kill.
        stop_on_signals(stop)
        # Before anybody can claim them: what fell due while nobody served is for the jobs' catch-up to decide.
        skip_missed(DatabaseClock().now(), MOST_SKIPPED)
        connections.close_all()
        tracing.start("serve")
        alive = threading.Thread(target=_keep_heartbeat, args=(stop,), name="croniq-heartbeat")
        alive.start()
        url = url_of(listener)

        def is_ready() -> None:
            self._say(f"Croniq serves {url}")
            voice.ready()

        try:
            server = Server(
                import_string(APPLICATION), is_ready=is_ready, is_alive=voice.alive, is_stopping=voice.stopping
            )
            server.run([listener])
        finally:
            stop.stop()
            alive.join(timeout=1)
            tracing.end()
        if alive.is_alive():
            # A database that hangs keeps this thread, and others, for as long as it likes; nobody waits for them now.
            self.stdout.flush()
            os._exit(0)

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()

    def _serve_in(self, processes: int, listener: socket.socket) -> None:
        """Serve from forks that share the socket. When one of them ends, all do: whoever started us starts us anew."""
        children: set[int] = set()
        # Nothing is ever written: the pipe closes when this process ends, however it ends, and the forks with it.
        orphaned, alive = os.pipe()
        said, word = os.pipe()
        manager = ServiceManager()
        shared = tempfile.mkdtemp(prefix="croniq-metrics-")
        for number in range(processes):
            pid = os.fork()
            if pid == 0:
                os.close(alive)
                os.close(said)
                siblings.join(Path(shared), number)
                threading.Thread(target=_stop_with_parent, args=(orphaned,), daemon=True).start()
                self._serve(listener, Member(word, number))
                os._exit(0)
            children.add(pid)
        listener.close()
        os.close(word)
        threading.Thread(target=speak_for, args=(processes, said, manager), daemon=True).start()

        def pass_on(signum: int, frame: object) -> None:
            manager.stopping()
            for pid in children:
                os.kill(pid, signal.SIGTERM)

        signal.signal(signal.SIGTERM, pass_on)
        signal.signal(signal.SIGINT, pass_on)
        failed = False
        while children:
            pid, status = os.wait()
            children.discard(pid)
            failed = failed or status != 0
            pass_on(signal.SIGTERM, None)
        shutil.rmtree(shared, ignore_errors=True)
        if failed:
            raise CommandError("A server process ended unexpectedly, so all were stopped.")


def _stop_with_parent(orphaned: int) -> None:
    os.read(orphaned, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _keep_heartbeat(stop: StopToken) -> None:
    """Write this process's sign of life until it stops; an outage is waited for."""
    clock, garbage = DatabaseClock(), Garbage()
    process_id = None

    def step() -> float:
        nonlocal process_id
        siblings.publish()
        garbage.look()
        # Together: this heartbeat hides the silence before it from everybody else.
        with write_transaction():
            now = clock.now()
            is_back = note_outage(now) == now
            if process_id is None:
                process_id = start_heartbeat("serve", now)
            else:
                beat(process_id, now, worked=True)
        if is_back:
            skip_missed(now, MOST_SKIPPED)
        return HEARTBEAT_SECONDS

    # Soon after the database is back this row says so: until then the outage lasts for all who look at it.
    run_loop("heartbeat", step, stop, most_backoff_seconds=HEARTBEAT_SECONDS)
    try:
        if process_id is not None:
            with write_transaction():
                now = clock.now()
                note_outage(now)
                end_heartbeat(process_id, now)
    except DatabaseError:
        pass  # the row grows old instead
    finally:
        connections.close_all()
