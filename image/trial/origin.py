"""The box's upstream, on a port of loopback that the kernel chose.

Below /app/ it answers what may be stored for a day, and counts how often it was asked; any other
path is a file that a step has put into `files`.
"""

import http.server
import shutil
import threading
from collections import Counter
from pathlib import Path

LARGE = 200_000  # octets of an answer with "large" in its path


def body_of(path: str) -> bytes:
    return (path.encode() + b" ").ljust(LARGE if "large" in path else 100, b".")


class Origin:
    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.files: dict[str, Path] = {}
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                origin.asked[self.path] += 1
                if self.path in origin.files:
                    self.give(origin.files[self.path])
                elif self.path.startswith("/app/"):
                    body = body_of(self.path)
                    self.send_response(200)
                    self.send_header("Cache-Control", "max-age=86400")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                else:
                    self.send_error(404)

            def give(self, path: Path) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(path.stat().st_size))
                self.end_headers()
                with path.open("rb") as source:
                    shutil.copyfileobj(source, self.wfile, 1 << 20)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
