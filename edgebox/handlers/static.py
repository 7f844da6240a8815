"""Files of one site: from a request to a response, by what the file store knows.

The decision is written once and never waits. Where it needs to know of a path what
the store cannot say without blocking, it raises `WouldBlock`; the task path fetches
that and decides again, the express lane hands the request to a task.
"""

from __future__ import annotations

from functools import partial
from urllib.parse import quote_from_bytes

from msgspec.structs import replace

from edgebox.config.schema import Site
from edgebox.files.entry import Directory, FileEntry, Found, Missing, has_dotfile
from edgebox.files.store import Docroot, FileStore
from edgebox.handlers import synthetic
from edgebox.handlers.variants import Look, Selected, Source, Variants
from edgebox.http.dates import format_date
from edgebox.http.faults import Fault
from edgebox.http.headers import Field, Fields
from edgebox.http.message import FileSlice, Request, Response
from edgebox.http.mime import content_type
from edgebox.http.ranges import Span
from edgebox.http.representation import Representation, represent

# Methods that files do not have (405); what is not among them nobody knows (501).
UNSAFE = frozenset((b"POST", b"PUT", b"PATCH", b"DELETE", b"TRACE", b"CONNECT"))


class WouldBlock(Exception):
    """The store must be asked for this path in a way that may wait."""

    def __init__(self, docroot: Docroot, path: bytes) -> None:
        self.key = (docroot, path)


class Static:
    """Serves the files below one docroot."""

    def __init__(self, site: Site, docroot: Docroot, store: FileStore, variants: Variants) -> None:
        self._docroot = docroot
        self._store = store
        self._variants = variants
        self._index = [name.encode() for name in site.index]
        self._dotfiles = site.dotfiles
        self._types = site.types
        self._fields = tuple((k.encode(), v.encode("latin-1")) for k, v in site.headers.items())
        self._error_pages = {int(k): v.encode() for k, v in site.error_pages.items()}

    def answer_nowait(self, request: Request, now: int, monotonic: float) -> Response | None:
        """The response, or None where making it might wait for the disk."""

        def look(docroot: Docroot, path: bytes) -> Found:
            found = self._store.find_nowait(docroot, path, monotonic)
            if found is None:
                raise WouldBlock(docroot, path)
            return found

        try:
            response = self._answer(request, now, look)
        except WouldBlock:
            return None
        # Where every request is to look, not even a 404 may be repeated for the next one.
        return response if self._store.rememberable else replace(response, remember=False)

    async def answer(self, request: Request, now: int, monotonic: float) -> Response:
        """The response; waits for the disk where it must."""
        known: dict[tuple[Docroot, bytes], Found] = {}

        def look(docroot: Docroot, path: bytes) -> Found:
            found = known.get((docroot, path))
            if found is None:
                found = self._store.find_nowait(docroot, path, monotonic)
            if found is None:
                raise WouldBlock(docroot, path)
            return found

        while True:
            try:
                return self._answer(request, now, look)
            except WouldBlock as need:
                known[need.key] = await self._store.find(*need.key, monotonic)

    def _answer(self, request: Request, now: int, look: Look) -> Response:
        if request.target.separated is not None:
            # To a file system it would be a separator, to who made the link part of a name.
            return synthetic.refusal(Fault.PATH)
        if request.method == b"OPTIONS":
            return synthetic.options()
        if request.method not in (b"GET", b"HEAD"):
            known = request.method in UNSAFE
            return self._error(405 if known else 501, look, (synthetic.ALLOW,) if known else ())
        path = request.target.path
        if not self._dotfiles and has_dotfile(path):
            return self._error(404, look)
        found = look(self._docroot, path)
        if isinstance(found, Directory):
            if not path.endswith(b"/"):
                return self._add_slash(request)
            path, found = self._find_index(path, look)
        if isinstance(found, Missing):
            return self._error(found.status, look)
        return self._serve(request, path, found, now, look)

    def _add_slash(self, request: Request) -> Response:
        # From the normalised path, so that it starts with exactly one slash and can
        # not name another host (//evil.example) or carry a line break.
        location = quote_from_bytes(request.target.path, safe="/:@!$&'()*+,;=~").encode() + b"/"
        if request.target.query is not None:
            location += b"?" + request.target.query
        return synthetic.redirect(location)

    def _find_index(self, path: bytes, look: Look) -> tuple[bytes, FileEntry | Missing]:
        for name in self._index:
            found = look(self._docroot, path + name)
            if isinstance(found, FileEntry):
                return path + name, found
            if isinstance(found, Missing) and found.status != 404:  # it is there, or may be
                return path + name, found
        return path, Missing.NOT_FOUND

    def _error(self, status: int, look: Look, extra: Fields = ()) -> Response:
        """The site's own page for `status` if it has one that can be read, else ours."""
        page = self._error_pages.get(status)
        found = look(self._docroot, page) if page is not None else None
        if page is None or not isinstance(found, FileEntry):
            return synthetic.error(status, extra=extra)
        kind: Field = (b"Content-Type", content_type(page, self._types))
        return Response(
            status,
            (kind, *extra),
            take(found, None),
            remember=found.content is not None and status < 500,
        )

    def _serve(
        self, request: Request, path: bytes, source: FileEntry, now: int, look: Look
    ) -> Response:
        kind = content_type(path, self._types)
        accept = request.headers.get(b"accept-encoding")
        selected = self._variants.select(Source(self._docroot, path, source, kind), accept, look)
        if selected is None:
            return self._error(406, look, ((b"Vary", b"Accept-Encoding"),))
        entry = selected.entry
        whole = Representation(
            kind=kind,
            fields=self._validators(selected, now),
            etag=selected.etag,
            modified=selected.dated.mtime,
            size=entry.size,
            take=partial(take, entry),
            remember=entry.content is not None,
        )
        response = represent(request, whole, now)
        if response.status in (412, 416):
            return self._error(response.status, look, response.fields)
        return response

    def _validators(self, selected: Selected, now: int) -> Fields:
        """What 200, 206 and 304 have in common (RFC 9110 §15.4.5)."""
        fields: list[Field] = [
            (b"Last-Modified", last_modified(selected.dated, now)),
            (b"ETag", selected.etag),
        ]
        if selected.varies:
            fields.append((b"Vary", b"Accept-Encoding"))
        if selected.coding:
            fields.append((b"Content-Encoding", selected.coding))
        return (*fields, *self._fields)


def last_modified(entry: FileEntry, now: int) -> bytes:
    """Last-Modified of an answer made at `now`."""
    # A clock that was wrong, or an archive's dates: never later than Date (RFC 9110 §8.8.2.1).
    return entry.last_modified if entry.mtime <= now else format_date(now)


def take(entry: FileEntry, span: Span | None) -> bytes | FileSlice:
    """The octets of `span`, all of them for None; a slice holds the file open."""
    first, length = (span.first, span.length) if span is not None else (0, entry.size)
    if entry.content is not None:
        return entry.content if span is None else entry.content[first : first + length]
    assert entry.file is not None
    return FileSlice(entry.file.acquire(), first, length)
