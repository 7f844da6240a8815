"""What is large, slow or endless: events, downloads, uploads, and every way to go wrong.

Nothing happens by the clock that a test could not bring about itself: events are said and
readers let go by requests of their own, and `state` tells how far everything has come.
"""

from __future__ import annotations

import os
import queue
import random
import signal
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator

from flask import Flask, Response, jsonify, request

app = Flask(__name__)

BLOCK = random.Random(7).randbytes(256 * 1024)

NAMES = ("hanging", "produced", "ended", "received", "uploads", "broken")
state: Counter[str] = Counter()
listeners: set[queue.Queue[str]] = set()
go = threading.Event()


@app.get("/state")
def tell() -> Response:
    return jsonify(dict.fromkeys(NAMES, 0) | state | {"listeners": len(listeners)})


@app.get("/events")
def events() -> Response:
    """Whatever is said, to all who listen; "end" ends it. `tick`: seconds between comments."""
    tick = request.args.get("tick", type=float)
    mine: queue.Queue[str] = queue.Queue()
    listeners.add(mine)

    def stream() -> Iterator[str]:
        try:
            yield ": listening\n\n"  # gunicorn sends the head along with the first octets
            while True:
                try:
                    text = mine.get(timeout=tick)
                except queue.Empty:
                    yield ": still here\n\n"
                    continue
                if text == "end":
                    return
                yield f"data: {text}\n\n"
        finally:
            listeners.discard(mine)

    return Response(stream(), content_type="text/event-stream")


@app.post("/say")
def say() -> Response:
    for listener in tuple(listeners):
        listener.put(request.get_data(as_text=True))
    return Response(status=204)


@app.get("/listen")
def page() -> str:
    """A page that reports each event that it hears to /heard, and then one WebSocket echo."""
    return """<!doctype html><script>
const heard = text => fetch("/heard", {method: "POST", body: text});
const events = new EventSource("/events");
events.onmessage = event => {
  heard(event.data);
  if (event.data !== "socket") return;
  events.close();
  const socket = new WebSocket(`ws://${location.host}/ws`);
  socket.onopen = () => socket.send("hello");
  socket.onmessage = event => { heard("echo " + event.data); socket.close(1000); };
  socket.onclose = event => heard("closed " + event.code);
};
</script>"""


@app.post("/heard")
def heard() -> Response:
    state["heard " + request.get_data(as_text=True)] += 1
    return Response(status=204)


@app.get("/bytes/<int:size>")
def download(size: int) -> Response:
    """`size` octets, made as they are sent; `cc` is their Cache-Control."""

    def stream() -> Iterator[bytes]:
        left = size
        try:
            while left:
                piece = BLOCK[:left]
                left -= len(piece)
                state["produced"] += len(piece)
                yield piece
        finally:
            state["ended"] += 1

    fields = {"Cache-Control": request.args.get("cc", "no-store")}
    if "length" in request.args:
        fields["Content-Length"] = str(size)
    return Response(stream(), content_type="application/octet-stream", headers=fields)


@app.route("/upload", methods=["PUT", "POST"])
def upload() -> Response:
    """Read it all and tell what it was; `hold`: octets after which it waits for /go."""
    hold = request.args.get("hold", type=int)
    crc = length = 0
    try:
        while piece := request.stream.read(256 * 1024):
            length += len(piece)
            crc = zlib.crc32(piece, crc)
            state["received"] += len(piece)
            if hold is not None and length >= hold:
                go.wait(30)
        if length != (request.content_length or length):
            raise EOFError("less than was announced")
    except Exception:
        state["broken"] += 1
        raise
    state["uploads"] += 1
    return jsonify(length=length, crc=crc)


@app.post("/stop")
def hold_on() -> Response:
    go.clear()
    return Response(status=204)


@app.post("/go")
def let_go() -> Response:
    go.set()
    return Response(status=204)


@app.post("/refuse")
def refuse() -> Response:
    """An answer that does not wait for the body."""
    return Response("not from you\n", 403)


@app.post("/echo")
def echo() -> Response:
    """An answer that begins at once and goes on as the body comes."""
    stream = request.stream

    def pieces() -> Iterator[bytes]:
        yield b"begun\n"
        while piece := stream.read(64 * 1024):
            yield piece

    return Response(pieces(), content_type="application/octet-stream")


@app.get("/hang")
def hang() -> str:
    state["hanging"] += 1
    time.sleep(request.args.get("seconds", 2.0, type=float))
    return "at last"


@app.post("/no-answer")
def no_answer() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@app.get("/cut")
def cut() -> Response:
    """Less than was announced."""

    def stream() -> Iterator[bytes]:
        yield b"x" * 1000
        raise RuntimeError("a bug in the middle of an answer")

    return Response(stream(), headers={"Content-Length": "2000"})
