"""HTTP jobs against a real server: what is sent, what its answer means, and what no answer may do to the runner."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from runners.agent.actions import ACTION_KEY, ActionRefused, HttpAction, action_of
from runners.agent.addresses import HostRules
from runners.agent.environment import run_headers
from runners.agent.http_job import RequestFailed, run_request
from runners.agent.secrets import Secrets
from tests.runners.agent.helpers import IMPATIENT, RecordingWriter, until
from tests.runners.agent.local_http import Peer, Received, serving

PEM = Path(__file__).parent / "localhost.pem"
"""A certificate of the name localhost, signed by itself, with its key; valid from 2020 to 2120, used nowhere else."""

MORE_AND_MORE = (0.2, 2, 20)
"""Time limits, in seconds, to try in turn: on a busy machine one may be over before anything was sent."""

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def http(**action: Any) -> HttpAction:
    """Read a request as it comes with an assignment."""
    return action_of({ACTION_KEY: {"type": "http", "method": "GET", **action}})


async def run(
    action: HttpAction,
    writer: RecordingWriter,
    *,
    environ: dict[str, str] | None = None,
    rules: HostRules | None = None,
    tls: ssl.SSLContext = NO_TLS,
    timeout_seconds: float = 30.0,
) -> None:
    await run_request(
        action,
        identity=run_headers("run-1", 2, None),
        secrets=Secrets(environ or {}),
        writer=writer,
        hosts=rules or HostRules(),
        tls=tls,
        timeout_seconds=timeout_seconds,
        patience=IMPATIENT,
    )


def send(action: HttpAction, **options: Any) -> RecordingWriter:
    writer = RecordingWriter()
    asyncio.run(asyncio.wait_for(run(action, writer, **options), 60))
    return writer


def failure(action: HttpAction, **options: Any) -> str:
    with pytest.raises(RequestFailed) as caught:
        send(action, **options)
    return str(caught.value)


def refusal(action: HttpAction, **options: Any) -> str:
    with pytest.raises(ActionRefused) as caught:
        send(action, **options)
    return str(caught.value)


def fine(request: Received, peer: Peer) -> None:
    peer.reply(b"one\ntwo")


def test_an_answer_of_success_is_the_runs_log_in_order() -> None:
    with serving(fine) as server:
        writer = send(http(url=server.url("/a?b=c")))
    assert writer.lines == [
        ("runner", "info", f"GET {server.url('/a?b=c')} answered 200 OK"),
        ("response", "info", "one"),
        ("response", "info", "two"),
    ]


def test_what_is_sent_is_what_the_action_says_and_which_run_it_is() -> None:
    with serving(fine) as server:
        send(http(method="POST", url=server.url("/x"), headers={"X-A": "b"}, json={"n": [1, "ü"]}))
        send(http(method="PUT", url=server.url("/y"), headers={"idempotency-key": "mine"}, body="täxt"))
        send(http(method="POST", url=server.url("/z"), headers={"X-Croniq-Attempt": "9", "Host": "elsewhere.test"}))
    first, second, third = server.requests
    assert (first.method, first.target, json.loads(first.body)) == ("POST", "/x", {"n": [1, "ü"]})
    assert (
        first.headers.items()
        >= {
            "host": f"127.0.0.1:{server.port}",
            "content-type": "application/json",
            "x-a": "b",
            "idempotency-key": "run-1",
            "x-croniq-execution-id": "run-1",
            "x-croniq-attempt": "2",
            "accept-encoding": "identity",
        }.items()
    )
    assert (second.method, second.body) == ("PUT", "täxt".encode())
    assert second.headers["idempotency-key"] == "mine"
    assert (third.headers["content-length"], third.headers["x-croniq-attempt"]) == ("0", "2")
    assert third.headers["host"] == "elsewhere.test"


def test_another_status_is_the_error_and_what_counts_as_success_can_be_said() -> None:
    with serving(lambda request, peer: peer.reply(b"why\n", "500 Whatever")) as server:
        assert failure(http(url=server.url())) == "answered 500 Internal Server Error, expected 200-299"
        assert "expected 204, 300-399" in failure(http(url=server.url(), expected_status=[204, "300-399"]))
        assert send(http(url=server.url(), expected_status=["500-599"])).of("response") == ["why"]
    with serving(lambda request, peer: peer.reply(b"", "299 Mine")) as server:
        assert failure(http(url=server.url(), expected_status=[200])) == "answered 299, expected 200"


def test_a_hundred_megabytes_are_read_to_the_end_and_the_log_keeps_the_beginning() -> None:
    size = 100 * 1024 * 1024

    def flood(request: Received, peer: Peer) -> None:
        peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
        for _ in range(100):
            peer.send(b"x" * 1024 * 1024)

    with serving(flood) as server:
        writer = send(http(url=server.url(), max_response=100_000))
    assert sum(len(line.removesuffix("… [continues]")) for line in writer.of("response")) == 100_000
    assert writer.of("runner")[1:] == [f"the answer has {size} bytes, of which the log keeps 100000"]
    assert writer.most_held < 1_000_000


def test_nothing_of_an_answer_is_kept_where_none_of_it_is_wanted() -> None:
    with serving(fine) as server:
        assert len(send(http(url=server.url(), max_response=0)).lines) == 1


def test_a_compressed_answer_is_not_unpacked() -> None:
    with serving(lambda request, peer: peer.reply(b"\x1f\x8b" * 9, "200 OK", "Content-Encoding: gzip")) as server:
        assert send(http(url=server.url())).lines[1:] == [
            ("runner", "warn", "the answer is compressed, so it is not shown")
        ]


@pytest.mark.parametrize("is_own", [False, True])
def test_a_server_that_hangs_costs_the_time_limit_and_the_connection_is_closed(is_own: bool) -> None:
    with serving(lambda request, peer: peer.wait_for_close()) as server:
        for seconds in MORE_AND_MORE:
            own = {"timeout": f"{seconds}s"} if is_own else {}
            error = failure(http(url=server.url(), **own), timeout_seconds=60 if is_own else seconds)
            assert error == f"timed out after {seconds}s: no answer from 127.0.0.1:{server.port}"
            if server.requests:
                break
        assert server.closed.wait(10)


def test_what_came_before_a_server_hung_is_in_the_log() -> None:
    def half(request: Received, peer: Peer) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf")
        peer.wait_for_close()

    with serving(half) as server:
        for seconds in MORE_AND_MORE:
            writer = RecordingWriter()
            with pytest.raises(RequestFailed) as caught:
                asyncio.run(run(http(url=server.url()), writer, timeout_seconds=seconds))
            if writer.of("response"):
                break
    assert str(caught.value).endswith(f"s: 127.0.0.1:{server.port} had answered 200 OK and 4 bytes")
    assert writer.of("response") == ["half"]


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhello", "the answer of {} broke off after 5 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "the answer of {} broke off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "the answer of {} broke off"),
        (b"", "no answer from {}: the connection was closed"),
        (b"HTTP/1.1 200", "no answer from {}: the connection was closed"),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n", "what {} answered is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300_000, "what {} answered is not HTTP"),
    ],
)
def test_an_answer_that_breaks_off_or_is_none_is_a_failure_in_a_sentence(sent: bytes, says: str) -> None:
    with serving(lambda request, peer: peer.send(sent)) as server:
        assert failure(http(url=server.url())).startswith(says.format(f"127.0.0.1:{server.port}"))


def test_nobody_who_listens_is_named() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        error = failure(http(url=f"http://127.0.0.1:{port}/"))
    assert error == f"cannot connect to 127.0.0.1, port {port}: Connection refused"


def test_a_name_that_has_no_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert failure(http(url=f"http://{'x' * 64}.test/")).endswith("it is no name of a host")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert failure(http(url="http://nobody.test/")) == "cannot resolve 'nobody.test': Name or service not known"


def test_a_cancellation_ends_the_request_at_once_and_delivers_what_came() -> None:
    def slowly(request: Received, peer: Peer) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nbegun\n")
        peer.wait_for_close()

    async def story() -> None:
        task = asyncio.create_task(run(http(url=server.url()), writer))
        await until(lambda: writer.of("response"), "the answer has begun")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert server.closed.wait(10)

    writer = RecordingWriter()
    with serving(slowly) as server:
        asyncio.run(story())
    assert writer.of("response") == ["begun"]


def redirecting(status: str, location: str):
    """Answer `/` with a redirect and everything else with what was asked."""

    def answer(request: Received, peer: Peer) -> None:
        if request.target == "/":
            peer.reply(b"", status, f"Location: {location}")
        else:
            peer.reply(f"{request.method} {request.target}".encode())

    return answer


def test_a_redirect_is_not_followed_unless_the_action_says_so() -> None:
    with serving(redirecting("302 Found", "/b")) as server:
        error = failure(http(url=server.url()))
        assert error == f"answered 302 Found to {server.url('/b')}, and follow_redirects is off"
        assert len(server.requests) == 1
        send(http(url=server.url(), expected_status=[302]))
        assert send(http(url=server.url(), follow_redirects="same_host")).of("response") == ["GET /b"]


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        ("301 x", "POST", "GET"),
        ("303 x", "PUT", "GET"),
        ("302 x", "PUT", "PUT"),
        ("307 x", "POST", "POST"),
        ("308 x", "POST", "POST"),
    ],
)
def test_a_redirect_keeps_the_method_and_the_body_where_http_says_so(status: str, method: str, then: str) -> None:
    with serving(redirecting(status, "/b")) as server:
        send(http(method=method, url=server.url(), body="x", follow_redirects="same_host"))
    assert [(request.method, request.body) for request in server.requests] == [
        (method, b"x"),
        (then, b"x" if then == method else b""),
    ]


def test_a_redirect_without_the_body_is_without_its_type() -> None:
    with serving(redirecting("303 x", "/b")) as server:
        send(http(method="POST", url=server.url(), json={"a": 1}, follow_redirects="same_host"))
    assert ["content-type" in request.headers for request in server.requests] == [True, False]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"], ids=["another host", "another port"])
def test_a_redirect_to_another_host_needs_a_word_and_takes_no_header_of_the_actions_along(host: str) -> None:
    with serving(fine) as other, serving(redirecting("307 x", other.url("/b", host=host))) as server:
        action = {"url": server.url(), "method": "POST", "body": "x", "headers": {"X-Token": "t", "Accept": "a/b"}}
        error = failure(http(**action, follow_redirects="same_host"))
        assert error.endswith('which is another host, and follow_redirects is not "any"')
        assert not other.requests
        send(http(**action, follow_redirects="any"))
    (request,) = other.requests
    assert (request.body, request.headers["accept"], request.headers["host"]) == (
        b"x",
        "a/b",
        f"{host}:{other.port}",
    )
    assert not request.headers.keys() & {"x-token", "idempotency-key", "x-croniq-execution-id"}


@pytest.mark.parametrize("target", ["/a;b", "/a;b=1?c;d=2", "/a;b/c;d", "//a", "/?a;b"])
def test_all_of_a_path_is_sent_also_what_follows_a_semicolon(target: str) -> None:
    with serving(fine) as server:
        send(http(url=server.url(target + "#nor-this")))
    assert [request.target for request in server.requests] == [target]
    with serving(redirecting("302 x", target)) as server:
        if not target.startswith("//"):  # that is another host
            send(http(url=server.url(), follow_redirects="same_host"))
            assert server.requests[-1].target == target


def test_redirects_that_go_round_end() -> None:
    with serving(lambda request, peer: peer.reply(b"", "302 x", f"Location: {request.target}x")) as server:
        assert failure(http(url=server.url(), follow_redirects="any")) == "redirected more than 10 times"
    assert len(server.requests) == 11


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://[::1", "http://me:too@127.0.0.1/"])
def test_a_redirect_to_what_is_no_url_is_refused(location: str) -> None:
    with serving(redirecting("302 x", location)) as server:
        error = failure(http(url=server.url(), follow_redirects="any"))
    assert error == "answered 302 Found to what is no URL to go to"


def tls_server() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return context


def test_a_certificate_is_asked_for_by_the_name_though_the_address_is_connected_to() -> None:
    trusting = ssl.create_default_context(cafile=str(PEM))
    with serving(fine, tls_server()) as server:
        assert send(http(url=server.url(host="localhost")), tls=trusting).of("response") == ["one", "two"]
        error = failure(http(url=server.url()), tls=trusting)
        assert error.startswith(f"no TLS connection to 127.0.0.1:{server.port}: ")
        assert "certificate is not valid for '127.0.0.1'" in error


def test_a_certificate_that_nobody_trusts_is_a_failure_in_a_sentence() -> None:
    with serving(fine, tls_server()) as server:
        error = failure(http(url=server.url(host="localhost")), tls=ssl.create_default_context())
        assert "certificate verify failed" in error
        assert not server.requests
    with serving(fine) as plain:
        error = failure(http(url=f"https://127.0.0.1:{plain.port}/"), tls=ssl.create_default_context())
    assert error.startswith(f"no TLS connection to 127.0.0.1:{plain.port}")


def test_a_handshake_that_does_not_end_costs_the_time_limit_and_the_connection_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        silent.settimeout(0.1)
        connection = None
        for seconds in MORE_AND_MORE:
            error = failure(
                http(url=f"https://127.0.0.1:{port}/"), tls=ssl.create_default_context(), timeout_seconds=seconds
            )
            assert error == f"timed out after {seconds}s: no answer from 127.0.0.1:{port}"
            with contextlib.suppress(TimeoutError):
                connection, _ = silent.accept()
                break
        assert connection is not None
        with connection, contextlib.suppress(ConnectionError):
            connection.settimeout(10)
            while connection.recv(65536):  # the client's first words, then its end
                pass


def test_a_redirect_never_leaves_tls() -> None:
    with (
        serving(fine) as plain,
        serving(redirecting("302 x", plain.url("/b", host="localhost")), tls_server()) as server,
    ):
        trusting = ssl.create_default_context(cafile=str(PEM))
        error = failure(http(url=server.url(host="localhost"), follow_redirects="any"), tls=trusting)
    assert error.endswith("and does not go from https to http")
    assert not plain.requests


def test_an_address_that_gives_out_credentials_is_not_connected_to() -> None:
    assert "169.254.169.254 is an address that gives out" in refusal(http(url="http://169.254.169.254/latest/"))
    assert "::ffff:a9fe:a9fe" not in refusal(http(url="http://[::ffff:169.254.169.254]/"))


def test_a_name_is_resolved_once_and_what_was_looked_at_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: a name that says something harmless to whoever looks and something else to whoever connects."""
    answers = [["203.0.113.7", "169.254.169.254"], ["127.0.0.1"]]

    def rebinding(host: str, port: int, *args: object, **options: object) -> list[tuple]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answers.pop(0)]

    with serving(fine) as server:
        monkeypatch.setattr(socket, "getaddrinfo", rebinding)
        rules = HostRules.of(["127.0.0.0/8"])
        assert "203.0.113.7 is not among" in refusal(http(url=server.url(host="rebinding.test")), rules=rules)
        assert len(answers) == 1
        send(http(url=server.url(host="rebinding.test")), rules=rules)
        assert answers == []
    assert [request.headers["host"] for request in server.requests] == [f"rebinding.test:{server.port}"]


def test_a_name_that_has_two_addresses_is_tried_at_both(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_two(host: str, port: int, *args: object, **options: object) -> list[tuple]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("127.0.0.2", "127.0.0.1")]

    with serving(fine) as server:  # it listens at 127.0.0.1 only
        monkeypatch.setattr(socket, "getaddrinfo", of_two)
        assert send(http(url=server.url(host="two.test"))).of("response") == ["one", "two"]


def test_a_redirect_is_held_to_the_same_rules() -> None:
    with serving(redirecting("302 x", "http://169.254.169.254/b")) as server:
        assert "169.254.169.254" in refusal(http(url=server.url(), follow_redirects="any"))


def echo(request: Received, peer: Peer) -> None:
    """Give the request back, byte by byte, so that no secret comes in one piece."""
    text = f"{request.target}\n{request.headers.get('authorization')}\n".encode() + request.body
    peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n".encode())
    for byte in text:
        peer.send(bytes([byte]))


def test_secrets_reach_the_server_and_nobody_who_reads_the_log() -> None:
    environ = {"CRONIQ_SECRET_TOKEN": 's3cr"t/ü', "CRONIQ_SECRET_HOOK": "/services/T0/B0/hook"}
    with serving(echo) as server:
        action = http(
            method="POST",
            url={"secret": "HOOK", "prefix": server.url("")},
            headers={"Authorization": {"secret": "PLAIN", "prefix": "Bearer "}},
            json={"token": {"secret": "TOKEN"}, "list": [{"secret": "TOKEN"}], "kept": {"secret": "TOKEN", "x": 1}},
        )
        writer = send(action, environ=environ | {"CRONIQ_SECRET_PLAIN": "plain-token"})
        bodied = send(http(method="POST", url=server.url(), body={"secret": "TOKEN"}), environ=environ)
    first, second = server.requests
    assert (first.target, first.headers["authorization"]) == ("/services/T0/B0/hook", "Bearer plain-token")
    assert json.loads(first.body) == {
        "token": 's3cr"t/ü',
        "list": ['s3cr"t/ü'],
        "kept": {"secret": "TOKEN", "x": 1},
    }
    assert writer.lines == [
        ("runner", "info", f"POST {server.url('')}*** answered 200 OK"),
        ("response", "info", "***"),
        ("response", "info", "Bearer ***"),
        ("response", "info", '{"token": "***", "list": ["***"], "kept": {"secret": "TOKEN", "x": 1}}'),
    ]
    assert second.body == 's3cr"t/ü'.encode()
    assert bodied.of("response")[2:] == ["***"]


def test_a_bound_that_cuts_a_secret_in_two_shows_neither_half() -> None:
    with serving(echo) as server:
        action = http(method="POST", url=server.url(), body={"secret": "TOKEN", "prefix": "x"}, max_response=12)
        writer = send(action, environ={"CRONIQ_SECRET_TOKEN": "0123456789"})
    assert writer.of("response") == ["/", "None", "x"]


def test_an_answer_that_repeats_the_path_of_a_secret_url_does_not_tell_it() -> None:
    with serving(lambda request, peer: peer.reply(request.target.encode())) as server:
        environ = {"CRONIQ_SECRET_HOOK": server.url("/hooks/t0ken-t0ken")}
        assert send(http(url={"secret": "HOOK"}), environ=environ).of("response") == ["***"]
        # What is too short to be a secret would hide half of every line.
        environ = {"CRONIQ_SECRET_HOOK": server.url("/a")}
        assert send(http(url={"secret": "HOOK"}), environ=environ).of("response") == ["/a"]


def test_a_redirect_that_repeats_a_secret_does_not_tell_it() -> None:
    with serving(redirecting("302 x", "/b?token=t0ken-t0ken")) as server:
        action = http(url=server.url(), headers={"X-Token": {"secret": "TOKEN"}})
        error = failure(action, environ={"CRONIQ_SECRET_TOKEN": "t0ken-t0ken"})
    assert "/b?token=***, and follow_redirects is off" in error


@pytest.mark.parametrize("where", ["headers", "body", "json", "url"])
def test_a_secret_that_is_not_here_is_named_and_nothing_is_sent(where: str) -> None:
    reference = {"secret": "NOT_HERE"}
    with serving(fine) as server:
        field = {"headers": {"X": reference}, "json": [reference]}.get(where, reference)
        error = refusal(http(**({"method": "POST", "url": server.url()} | {where: field})))
        variable = "CRONIQ_SECRET_NOT_HERE"
        assert error == (
            f"this runner has no secret 'NOT_HERE': neither {variable} nor {variable}_FILE is set in its environment"
        )
        assert not server.requests


def test_a_secret_that_is_no_header_or_no_url_is_refused_without_telling_it() -> None:
    environ = {"CRONIQ_SECRET_TWO": "a\r\nX-Evil: 1", "CRONIQ_SECRET_URL": "file:///etc/passwd"}
    with serving(fine) as server:
        error = refusal(http(url=server.url(), headers={"X-A": {"secret": "TWO"}}), environ=environ)
        assert error == "the header X-A cannot be sent: its value is not one line of printable ASCII"
        error = refusal(http(url={"secret": "URL"}), environ=environ)
        assert error == "the secret 'URL' is no URL of the form https://host/path"
        assert not server.requests


@pytest.mark.parametrize(
    ("action", "named"),
    [
        ({"method": "BREW"}, "method"),
        ({"url": None}, "url"),
        ({"url": "ftp://x/"}, "ftp://x/"),
        ({"url": "http://x/ y"}, "no URL"),
        ({"url": "http://me:too@x/"}, "a user in it"),
        ({"url": "http://x:99999/"}, "no URL"),
        ({"url": {"secret": "KEY"}}, "url"),
        ({"url": {"secret": "a b"}}, "url"),
        ({"headers": ["X"]}, "headers"),
        ({"headers": {"A B": "x"}}, "A B"),
        ({"headers": {"Content-Length": "5"}}, "Content-Length"),
        ({"headers": {"X": "a\r\nb"}}, "header X"),
        ({"headers": {"X": 1}}, "headers"),
        ({"body": 1}, "body"),
        ({"expected_status": ["abc"]}, "expected_status"),
        ({"timeout": "soon"}, "timeout"),
        ({"timeout": "0s"}, "timeout"),
        ({"follow_redirects": "everywhere"}, "follow_redirects"),
        ({"max_response": -1}, "max_response"),
        ({"max_response": True}, "max_response"),
    ],
)
def test_a_malformed_request_is_refused_and_the_field_named(action: dict[str, Any], named: str) -> None:
    with pytest.raises(ActionRefused) as caught:
        send(http(**({"url": "http://127.0.0.1:1/"} | action)))
    assert named in str(caught.value)
