"""X-Accel-Redirect and X-Sendfile: the app server decides who gets a file, we send it.

The app checks a login, counts a download, and answers with a name instead of the octets. The
file goes out as any other does, with ranges, conditions and sendfile; what else the app said
(Content-Type, Content-Disposition, Cache-Control, cookies) stays. Where a route names no
directory the fields are dropped, since a client has no use for our paths.

No cache stores such an answer: it was made for one client, and its octets are not in it.
What a field may name is decided here, what lies at that path is the files room's to say.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from edgebox.epoch import Moment
from edgebox.files.entry import Docroot, FileEntry
from edgebox.files.store import FileStore
from edgebox.handlers import synthetic
from edgebox.handlers.static import last_modified, take
from edgebox.http.faults import Fault
from edgebox.http.headers import Field, Fields, Headers
from edgebox.http.message import Request, Response
from edgebox.http.mime import content_type
from edgebox.http.representation import Representation, represent
from edgebox.http.target import normalise_path

Log = Callable[[str, str], None]  # a level and a text

ACCEL_REDIRECT = b"x-accel-redirect"
SENDFILE = b"x-sendfile"
_NAMING = frozenset((ACCEL_REDIRECT, SENDFILE))

# What the file itself says, or goes out anew: the app's answer may have been made for a
# range, or bear the tag of an empty body.
_OF_THE_FILE = frozenset((
    b"accept-ranges", b"content-length", b"content-range", b"content-type", b"etag",
    b"last-modified",
))  # fmt: skip

# Added to an answer that names a file, on its way through the cache, and taken off behind it:
# no other request may use that answer (RFC 9111 §4.1). Known by its identity.
_HELD: Field = (b"Vary", b"*")


class Accel:
    """Files below `docroot` that the answers of one route may name; None: they may name none."""

    def __init__(
        self,
        docroot: Docroot | None,
        store: FileStore,
        clock: Callable[[], Moment],
        log: Log,
    ) -> None:
        self._docroot = docroot
        self._store = store
        self._clock = clock
        self._log = log

    def hold(self, fields: Fields) -> Fields:
        """An upstream's `fields` as the cache may see them."""
        if not _NAMING.intersection([name.lower() for name, _ in fields]):
            return fields
        if self._docroot is not None:
            return (*fields, _HELD)
        return _without(fields, _NAMING)

    def holds(self, fields: Fields) -> bool:
        """Whether `fields`, as `hold` gave them, are of an answer that names a file."""
        # Few answers have any Vary: *, and to find that out takes no turn of Python's.
        return _HELD in fields and any(field is _HELD for field in fields)

    async def finish(self, request: Request, response: Response) -> Response:
        """`response`, or the file that it names; its own body is given up then."""
        if self._docroot is None or not self.holds(response.fields):
            return response
        headers = Headers(field for field in response.fields if field is not _HELD)
        fields = _without(headers.fields, _NAMING)
        if response.status < 200 or response.status in (204, 205, 304):
            return replace(response, fields=fields)  # has no content, whatever it names
        await response.aclose()
        path = self._path_in(headers, self._docroot)
        if path is None:
            named = headers.get(ACCEL_REDIRECT) or headers.get(SENDFILE) or b""
            return self._refuse(request, named, 404, "is not in the directory of this route")
        now = self._clock()
        found = self._store.find_nowait(self._docroot, path, now.monotonic)
        if found is None:
            found = await self._store.find(self._docroot, path, now.monotonic)
        if not isinstance(found, FileEntry):
            status = getattr(found, "status", 404)  # a directory has none
            return self._refuse(request, path, status, "cannot be sent")
        return _answer(request, replace(response, fields=fields), found, now.wall)

    def _path_in(self, headers: Headers, docroot: Docroot) -> bytes | None:
        """What the fields name, as a path below `docroot`; None where it lies elsewhere.

        X-Accel-Redirect has a path as in a URL, escapes and all, which counts from the
        directory. X-Sendfile has a path of the file system as it is: frameworks do not
        escape it.
        """
        target = headers.get(ACCEL_REDIRECT)
        if target is not None:
            path = normalise_path(target.partition(b"?")[0])
            return None if isinstance(path, Fault) or not path.startswith(b"/") else path
        named = _segments(headers.get(SENDFILE) or b"")
        root = _segments(docroot.root)
        if not named or not root or b".." in named or named[: len(root)] != root:
            return None
        return b"/" + b"/".join(named[len(root) :])

    def _refuse(self, request: Request, named: bytes, status: int, why: str) -> Response:
        """The app named what cannot be had: its client gets an error, the operator the name."""
        asked = request.target.raw.decode("latin-1")
        self._log("warning", f"{asked}: the file {named!r} that the upstream names {why}")
        return synthetic.error(status)


def _answer(request: Request, told: Response, found: FileEntry, now: int) -> Response:
    """`found` as the app `told` it; conditions and ranges are met by the file."""
    kind = Headers(told.fields).get(b"content-type") or content_type(found.path, {})
    whole = Representation(
        kind=kind,
        fields=(
            *_without(told.fields, _OF_THE_FILE),
            (b"Last-Modified", last_modified(found, now)),
            (b"ETag", found.etag),
        ),
        etag=found.etag,
        modified=found.mtime,
        size=found.size,
        take=partial(take, found),
        remember=False,
    )
    if told.status not in (200, 206) or request.method not in (b"GET", b"HEAD"):
        # An error page, or what a POST made: nothing that could be asked for in parts.
        fields = ((b"Content-Type", kind), *whole.fields)
        return Response(told.status, fields, whole.take(None), forwarded=True)
    response = represent(request, whole, now)
    if response.status in (412, 416):
        position = (field for field in response.fields if field[0] == b"Content-Range")
        return replace(synthetic.error(response.status, extra=tuple(position)), remember=False)
    return replace(response, forwarded=True)


def _segments(path: bytes) -> list[bytes]:
    """The segments of an absolute path, none for any other."""
    if not path.startswith(b"/"):
        return []
    return [segment for segment in path.split(b"/") if segment not in (b"", b".")]


def _without(fields: Fields, names: frozenset[bytes]) -> Fields:
    return tuple(field for field in fields if field[0].lower() not in names)
