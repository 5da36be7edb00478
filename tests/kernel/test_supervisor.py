"""Real children: kept alive, heard, ended in order."""

import os
import signal
import sys
import threading

import pytest

from croniq_site.kernel.stop import StopToken
from croniq_site.kernel.supervisor import ChildSpec, supervise
from tests.support.polling import poll_until

DEADLINE_SECONDS = 20


class Said:
    """Collects the lines; wait for one."""

    def __init__(self):
        self.lines: list[tuple[str, str]] = []
        self.changed = threading.Condition()

    def __call__(self, name, line):
        with self.changed:
            self.lines.append((name, line))
            self.changed.notify_all()

    def wait_for(self, *wanted):
        def seen():
            return all(line in self.lines for line in wanted)

        with self.changed:
            assert self.changed.wait_for(seen, DEADLINE_SECONDS), self.lines


def python(code):
    return [sys.executable, "-u", "-c", code]


STAYS = (
    "import signal, sys\n"
    "def end(*_): print('ending', flush=True); sys.exit(0)\n"
    "signal.signal(signal.SIGTERM, end)\n"
    "print('here', flush=True)\n"
    "while True: signal.pause()\n"
)


@pytest.fixture
def supervised():
    stop, threads = StopToken(), []

    def start(*specs, hurry=None):
        said = Said()
        thread = threading.Thread(target=supervise, args=(specs, stop), kwargs={"say": said, "hurry": hurry})
        thread.start()
        threads.append(thread)
        return said, stop, thread

    yield start
    stop.stop()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive()


def test_children_end_last_one_first_and_none_is_left(supervised):
    said, stop, thread = supervised(ChildSpec("server", python(STAYS)), ChildSpec("runner", python(STAYS)))
    said.wait_for(("server", "here"), ("runner", "here"))
    stop.stop()
    thread.join(DEADLINE_SECONDS)
    assert [line for line in said.lines if line[1] == "ending"] == [("runner", "ending"), ("server", "ending")]


def test_a_child_waits_for_its_turn_and_holds_up_those_behind_it(supervised):
    may, asked = threading.Event(), threading.Semaphore(0)

    def when():
        asked.release()
        return may.is_set()

    said, _, _ = supervised(
        ChildSpec("server", python(STAYS)),
        ChildSpec("runner", python(STAYS), start_when=when),
        ChildSpec("last", python(STAYS)),
    )
    said.wait_for(("server", "here"))
    assert all(asked.acquire(timeout=5) for _ in range(5))
    assert said.lines == [("server", "here")]
    may.set()
    said.wait_for(("runner", "here"), ("last", "here"))


def test_a_child_that_dies_is_started_again(supervised):
    said, _, _ = supervised(ChildSpec("worker", python("import os; print(os.getpid(), flush=True)")))
    with said.changed:
        pids = lambda: {line for _, line in said.lines if line.isdigit()}  # noqa: E731
        assert said.changed.wait_for(lambda: len(pids()) >= 2, DEADLINE_SECONDS), said.lines
    assert ("worker", "ended with exit code 0; started again in 1 s") in said.lines


def test_a_child_that_ignores_sigterm_is_killed_with_its_group(supervised):
    code = (
        "import os, signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import signal; signal.signal(15, signal.SIG_IGN);'\n"
        "  'print(\"grandchild\", flush=True); signal.pause()'])\n"
        "print(p.pid, flush=True)\n"
        "signal.pause()\n"
    )
    said, stop, thread = supervised(ChildSpec("stubborn", python(code), stop_seconds=0.3))
    said.wait_for(("stubborn", "grandchild"))
    grandchild = poll_until(lambda: [int(line) for _, line in said.lines if line.isdigit()], what="its number")[0]
    stop.stop()
    thread.join(DEADLINE_SECONDS)
    # Nobody waits for it: it is dead a moment after the signal.
    poll_until(lambda: not _alive(grandchild), what="the grandchild is dead")


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a child ask to end with its parent")
def test_children_end_when_the_supervisor_is_killed(tmp_path):
    import subprocess

    code = (
        "import sys\n"
        "from croniq_site.kernel.stop import StopToken\n"
        "from croniq_site.kernel.supervisor import ChildSpec, supervise\n"
        f"spec = ChildSpec('child', [sys.executable, '-u', '-c', {('import os; print(os.getpid());' + STAYS)!r}])\n"
        "supervise([spec], StopToken(), say=lambda name, line: print(line, flush=True))\n"
    )
    supervisor = subprocess.Popen(python(code), stdout=subprocess.PIPE, text=True)
    try:
        pid = int(supervisor.stdout.readline())
        assert supervisor.stdout.readline() == "here\n"
        os.kill(supervisor.pid, signal.SIGKILL)
        supervisor.wait(DEADLINE_SECONDS)
        gone, patience = threading.Event(), DEADLINE_SECONDS * 20
        while _alive(pid) and patience:
            gone.wait(0.05)
            patience -= 1
        assert not _alive(pid)
    finally:
        supervisor.stdout.close()
