"""Models behind a server: what is asked, what is refused, and what a server may not do."""

from __future__ import annotations

import base64
import re
import socket
import threading
import time
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from model_world import Pictures, encoded
from PIL import Image
from served_world import KEY, MODEL, World, colour_of, serving, settings

from fairgate.ground.errors import ModelError
from fairgate.models import open_scorer
from fairgate.models.served.server import Server

URI = f"openai:@vision?model={MODEL}"
ASKED = "Who is it?"
SHADES = [(row, 0, 0) for row in range(20)]


def coloured(shades: list[tuple[int, int, int]], kind: str = "PNG") -> Pictures:
    return Pictures([encoded(Image.new("RGB", (8, 8), shade), kind) for shade in shades])


def opened(pictures: Pictures | None = None, more: str = "") -> Any:
    return open_scorer(f"{URI}{more}", pictures or coloured(SHADES))


def shade(colour: tuple[int, int, int], question: str) -> str:
    return f"{colour[0]} {question}"


def test_every_picture_is_asked_once_with_its_question_several_at_a_time(server: World) -> None:
    server.says, server.slow = shade, 0.02
    prompts = [f"{ASKED} {row}" if row != 3 else "" for row in range(20)]
    model = opened(more="&chat=Look: {image}{question}")
    answers = model.answer(prompts, 7)
    assert list(answers) == [f"{row} Look: {ASKED} {row}" if row != 3 else "" for row in range(20)]
    assert 2 <= server.at_once <= 8
    assert len(server.asked()) == 19
    body = server.asked()[0]
    assert (body["model"], body["max_tokens"], body["temperature"]) == (MODEL, 7, 0)
    assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert list(model.answer(prompts, 7)) == list(answers)
    assert len(server.asked()) == 19


def test_500_questions_are_asked_8_at_once_and_none_is_lost(server: World) -> None:
    """Also of a server that is busy at times, and ends connections."""
    pictures = coloured([(row % 250, row // 250, 0) for row in range(500)])
    server.says, server.slow = lambda colour, _: str(colour[0] + 250 * colour[1]), 0.02
    server.fault = lambda number: (503, b"busy", {"Retry-After": "0"}) if number and number % 50 == 0 else None
    started = time.monotonic()
    answers = opened(pictures).answer([ASKED] * 500, 5)
    assert list(answers) == [str(row) for row in range(500)]
    assert server.at_once == 8
    assert time.monotonic() - started < 500 * server.slow, "one after the other takes longer"


def test_a_photograph_is_sent_without_what_its_file_says_of_place_and_time(server: World) -> None:
    image, exif = Image.new("RGB", (8, 8), (9, 0, 0)), Image.Exif()
    exif[0x010E] = "home of the person"
    kinds = [encoded(image, "JPEG", exif=exif), encoded(image, "PNG", icc_profile=b"home"), encoded(image, "BMP")]
    opened(Pictures([*kinds, encoded(image, "JPEG") + b"home"])).answer([ASKED] * 4, 5)
    urls = [body["messages"][0]["content"][0]["image_url"]["url"] for body in server.asked()]
    assert {url.partition(";")[0] for url in urls} == {"data:image/png"}
    assert not any(b"home" in base64.b64decode(url.partition(",")[2]) for url in urls)
    assert all(abs(colour_of(url)[0] - 9) <= 1 for url in urls)


def test_labels_are_weighed_by_all_tokens_in_which_they_differ(server: World) -> None:
    server.label = lambda colour, text: -1.0 if (text == "nurse") == (colour[0] % 2 == 0) else -2.0
    model = opened(more="&question=Who?")
    weighed = model.log_probabilities(["nurse", "noble"])
    sums = np.array([[-4.0, -8.0] if row % 2 == 0 else [-8.0, -4.0] for row in range(20)])  # after the shared "n"
    assert np.allclose(weighed, sums - np.log(np.exp(sums).sum(axis=1, keepdims=True)), atol=1e-12)
    asked = len(server.asked())
    assert np.array_equal(model.log_probabilities(["noble", "nurse"]), weighed[:, ::-1])
    assert len(server.asked()) == asked == 40
    assert server.asked()[0]["messages"][1]["role"] == "assistant"


def test_a_server_that_weighs_no_text_that_it_is_given_is_refused_for_labels(server: World) -> None:
    with pytest.raises(ModelError, match="no log-probabilities") as refused:
        opened(more="&question=Who?").log_probabilities(["nurse", "doctor"])
    assert "vLLM" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("", "", "not set on this machine"),
        ("", "file:///etc/passwd", "has no address"),
        ("", "http://user:word@host/v1", "has no address"),
        ("_MODELS", "other", "may not be asked on this machine"),
        ("_REQUESTS", "many", "is 'many'"),
        ("_KEY", "two\r\nlines: x", "_KEY is no key"),
    ],
)
def test_what_the_machine_does_not_set_is_not_asked(
    server: World,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    problem: str,
) -> None:
    monkeypatch.setenv(f"FAIRGATE_SERVER_VISION{name}", value)
    with pytest.raises(ModelError, match=problem) as refused:
        opened()
    assert not server.headers
    assert not {"word", "lines"} & set(re.split(r"\W", str(refused.value)))


@pytest.mark.parametrize(
    "address",
    [
        *("openai:http://evil.test/v1?model=a", "openai:@vision", "openai:@../x?model=a", "openai:@VISION?model=a"),
        *(f"{URI}&question={{image}}Who?{{image}}", f"{URI}&question={'w' * 5_000}", f"{URI}&chat={{image}}"),
    ],
    ids=range(7),
)
def test_a_uri_names_a_server_a_model_and_a_text_with_one_picture_and_no_address(server: World, address: str) -> None:
    with pytest.raises(ModelError):
        open_scorer(address, coloured(SHADES))
    assert not server.headers


def test_a_redirect_is_not_followed_and_takes_no_key_along(server: World) -> None:
    other = World()
    with serving(other) as port:
        server.fault = lambda _: (307, b"", {"Location": f"http://127.0.0.1:{port}/v1/chat/completions"})
        with pytest.raises(ModelError, match="redirects"):
            opened()
    assert not other.headers


def test_a_run_sends_no_more_requests_than_the_machine_allows(
    server: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAIRGATE_SERVER_VISION_REQUESTS", "10")
    with pytest.raises(ModelError, match="sent 10 requests"):
        opened().answer([ASKED] * 20, 5)
    assert len(server.bodies) <= 9
    with pytest.raises(ModelError, match="sent 10 requests"):
        opened()


NONSENSE = [b"", b"<html>", b"[]", b'{"choices": []}', b'{"choices": [{"message": {"content": 7}}]}', b"[" * 100_000]


@pytest.mark.parametrize("content", NONSENSE, ids=range(len(NONSENSE)))
def test_a_server_that_answers_nonsense_gives_an_error_and_no_answer(server: World, content: bytes) -> None:
    model = opened()
    server.fault = lambda number: (200, content, {}) if number == 5 else None
    with pytest.raises(ModelError, match="something else than the protocol has"):
        model.answer([ASKED] * 20, 5)


def test_a_reply_without_a_text_is_no_empty_answer(server: World) -> None:
    server.says = lambda colour, _: None if colour[0] == 4 else "doctor"
    with pytest.raises(ModelError, match=r"holds no text \(about val/4.png"):
        opened().answer([ASKED] * 20, 5)


def test_a_busy_server_is_asked_again_and_a_refusal_is_shown_in_its_words(server: World) -> None:
    server.says = shade
    server.fault = lambda number: (429, b"", {"Retry-After": "0"}) if number in (3, 9, 10) else None
    model = opened()
    assert model.answer([ASKED] * 20, 5)[7] == f"7 {ASKED}"
    server.fault = lambda _: (400, b'{"error": {"message": "the picture is too large"}}', {})
    with pytest.raises(ModelError, match="status 400: the picture is too large"):
        model.answer(["And now?"] * 20, 5)
    server.fault = lambda _: (400, f"you sent {KEY}".encode(), {})
    with pytest.raises(ModelError, match="words that hold the key") as echoed:
        model.answer(["And here?"] * 20, 5)
    assert KEY not in str(echoed.value)
    server.fault = lambda _: (401, b"", {})
    with pytest.raises(ModelError, match="refuses the key") as refused:
        model.answer(["And then?"] * 20, 5)
    assert KEY not in str(refused.value)


def test_what_was_answered_before_a_server_was_killed_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = World(says=shade), World(says=shade)
    first.fault = lambda number: (500, b"", {}) if number > 12 else None
    with serving(first) as port:
        for name, value in settings(port, _PATIENCE="2").items():
            monkeypatch.setenv(name, value)
        model = opened()
        with pytest.raises(ModelError, match="does not answer within 2 s"):
            model.answer([ASKED] * 20, 5)
    with serving(second, port):
        answers = model.answer([ASKED] * 20, 5)
    assert list(answers) == [f"{row} {ASKED}" for row in range(20)]
    assert len(second.asked()) == 8


def test_patience_may_be_longer_than_a_socket_knows(server: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRGATE_SERVER_VISION_PATIENCE", "1000000000")
    assert list(opened().answer([ASKED] * 20, 5)) == ["doctor"] * 20
    assert len(server.asked()) == 20


def test_a_server_that_is_busy_is_asked_until_patience_ends(server: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRGATE_SERVER_VISION_PATIENCE", "6")
    model, started = opened(), time.monotonic()
    server.fault = lambda _: (503, b"", {}) if time.monotonic() - started < 4.5 else None
    assert model.answer([ASKED] * 20, 5)[0] == "doctor"


def test_a_slow_server_is_given_up_when_patience_ends(server: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRGATE_SERVER_VISION_PATIENCE", "2")
    model = opened()
    server.slow = 2.5
    with pytest.raises(ModelError, match="does not answer within 2 s"):
        model.answer([ASKED] * 2, 5)


@pytest.mark.parametrize("part", ["system", "listed"])
def test_a_server_that_changes_its_model_during_the_run_gives_no_answers(server: World, part: str) -> None:
    def change(number: int) -> None:
        if number == 15:
            server.system, server.listed = ("build-2", server.listed) if part == "system" else (server.system, other)

    other = {"id": MODEL, "owned_by": "acme", "root": "/models/other"}
    server.fault, model = change, opened()
    with pytest.raises(ModelError, match="changed during the run"):
        model.answer([ASKED] * 20, 5)


def test_a_served_model_has_no_fingerprint_that_another_opening_shares(server: World) -> None:
    first, second = opened(), opened()
    report = f"id {MODEL}, model {MODEL}, owned_by acme, system_fingerprint build-1"
    assert first.served == second.served == f"server vision, model {MODEL}: {report}"
    assert first.fingerprint != second.fingerprint


def test_the_name_of_a_key_is_no_server_whose_address_an_error_shows(server: World) -> None:
    with pytest.raises(ModelError, match="names no server") as refused:
        open_scorer(f"openai:@vision_key?model={MODEL}", coloured(SHADES))
    assert KEY not in str(refused.value)


STARTS = [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"]
STARTS += [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n", b"HTTP/1.1 200 OK\r\n\r\n"]


@pytest.mark.parametrize("start", STARTS, ids=["nothing", "headers", "length", "chunked", "open"])
@pytest.mark.parametrize("piece", [b"x", b"HTTP/1.1 100 Continue\r\n\r\n"], ids=["bytes", "continues"])
def test_a_reply_that_never_ends_is_cut_when_patience_ends(start: bytes, piece: bytes) -> None:
    def drip(client: socket.socket) -> None:
        with client, suppress(OSError):
            client.sendall(start)
            while True:
                time.sleep(0.01)
                client.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=lambda: drip(listening.accept()[0]), daemon=True).start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        with pytest.raises(ModelError, match="does not answer within"):
            Server("vision", address, "", (MODEL,), 10**6, 0.2).report(MODEL)


@pytest.mark.parametrize("raised", [KeyboardInterrupt, ValueError])
def test_an_interruption_does_not_wait_for_a_server_that_hangs_and_keeps_what_was_answered(
    server: World, raised: type[BaseException]
) -> None:
    def stop(done: int, _: int) -> None:
        if done == 5:
            raise raised

    hanging, began = threading.Event(), time.monotonic()
    server.fault = lambda number: (hanging.wait(60), None)[1] if number > 5 else None
    model = open_scorer(URI, coloured(SHADES), progress=stop)
    with pytest.raises(raised):
        model.answer([ASKED] * 20, 5)
    assert time.monotonic() - began < 10
    hanging.set()
    server.says = lambda *_: "again"
    assert sorted(model.answer([ASKED] * 20, 5)) == ["again"] * 15 + ["doctor"] * 5
