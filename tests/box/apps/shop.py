"""A small site as somebody would write it in Flask: logins, forms, validators, errors.

It knows of the proxy before it only by ProxyFix. `seen` counts what reached it, so that a
test can tell an answer of the cache from one of the app.
"""

from __future__ import annotations

import base64
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from flask import (
    Flask,
    Response,
    abort,
    jsonify,
    make_response,
    redirect,
    request,
    send_file,
    session,
    url_for,
)
from werkzeug.middleware.proxy_fix import ProxyFix

app = Flask(__name__)
app.secret_key = "a secret for one test"
app.config["USE_X_SENDFILE"] = "INVOICES" in os.environ
app.wsgi_app = ProxyFix(app.wsgi_app, x_for=1, x_proto=1, x_host=1)  # type: ignore[method-assign]

seen: Counter[str] = Counter()
news = ["first"]

PAGE = """<!doctype html><title>shop</title>
<link rel="stylesheet" href="/asset/look.css">
<p id="out">nothing yet</p><img id="dot" src="/asset/dot.png" alt="">
<script src="/asset/act.js"></script>
"""
# Says what the browser made of the page, and what the cache said of one more load.
SCRIPT = """
addEventListener("load", async () => {
  const color = getComputedStyle(document.getElementById("out")).color;
  const width = document.getElementById("dot").naturalWidth;
  const again = await fetch("/asset/look.css", {cache: "reload", headers: {"Cache-Control": ""}});
  document.getElementById("out").textContent =
    `color=${color} width=${width} status=${again.headers.get("cache-status")}`;
});
"""
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ASSETS = {
    "look.css": ("text/css", b"#out { color: rgb(1, 2, 3) }"),
    "act.js": ("text/javascript", SCRIPT.encode()),
    "dot.png": ("image/png", DOT),
}


@app.before_request
def count() -> None:
    seen[asked()] += 1


def asked() -> str:
    """Path and query, as they came."""
    return request.full_path.rstrip("?")


@app.get("/seen")
def told() -> Response:
    return jsonify(seen)


@app.get("/")
def page() -> Response:
    return Response(PAGE, headers={"Cache-Control": "public, max-age=60"})


@app.get("/asset/<name>")
def asset(name: str) -> Response:
    if name not in ASSETS:
        abort(404)
    kind, octets = ASSETS[name]
    response = Response(octets, content_type=kind)
    response.headers["Cache-Control"] = "public, max-age=600"
    response.add_etag()
    return response.make_conditional(request)


@app.route("/login", methods=["GET", "POST"])
def login() -> Response:
    if request.method == "GET":
        return Response('<form method="post"><input name="name"></form>')
    session["name"] = request.form["name"]
    return redirect(url_for("me", _external=True), 303)


@app.get("/me")
def me() -> Response:
    return Response(f"you are {session.get('name', 'nobody')}", content_type="text/plain")


@app.get("/visit")
def visit() -> Response:
    """Careless: a cookie of one visitor on what is called public."""
    session["visits"] = session.get("visits", 0) + 1
    response = make_response(f"{session.get('name', 'nobody')}: visit {session['visits']}")
    response.headers["Cache-Control"] = "public, max-age=600"
    del response.headers["Content-Type"]
    return response


@app.route("/news", methods=["GET", "POST"])
def read_news() -> Response:
    if request.method == "POST":
        news.append(request.form["text"])
        return Response(status=204)
    response = make_response("\n".join(news))
    response.headers["Cache-Control"] = request.args.get("cc", "no-cache")
    response.add_etag()
    response = response.make_conditional(request)
    seen[f"{asked()} {response.status_code}"] += 1
    return response


@app.get("/hello")
def hello() -> Response:
    """Public, but another page for each cookie: Flask says Vary: Cookie by itself."""
    response = make_response(f"hello {session.get('name', 'stranger')}")
    response.headers["Cache-Control"] = "public, max-age=600"
    return response


@app.get("/invoice")
def invoice() -> Response:
    """A file for those who are logged in, which the server before us has to send."""
    if "name" not in session:
        abort(403)
    return send_file(Path(os.environ["INVOICES"], "invoice.pdf"), as_attachment=True)


@app.get("/hinted")
def hinted() -> Response:
    request.environ["wsgi.early_hints"]([("Link", "</asset/look.css>; rel=preload; as=style")])
    return Response("page", headers={"Cache-Control": "max-age=600"})


@app.get("/moved")
def moved() -> Response:
    return redirect(url_for("page", _external=True), 301)


@app.get("/whoami")
def whoami() -> Response:
    return jsonify(
        address=request.remote_addr,
        scheme=request.scheme,
        host=request.host,
        fields={name: request.headers.getlist(name) for name in dict(request.headers)},
    )


@app.post("/form")
def form() -> Response:
    return jsonify(request.form)


@app.get("/broken")
def broken() -> Response:
    raise RuntimeError("a bug in the app")


@app.get("/poem")
def poem() -> Response:
    def lines() -> Iterator[str]:
        for number in range(5):
            yield f"line {number}\n"
            time.sleep(0.01)

    return Response(lines(), content_type="text/plain")
