"""What a worker does when an operator asks for it through the control socket.

Each verb is a small function over the worker's parts; `register` has the wire call them. The
supervisor asks all workers the same and puts their answers together (`chorus`), so a verb
speaks for its own worker only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

import trio

from edgebox.cache.bans import BanError
from edgebox.cache.key import primary_key
from edgebox.cache.purges import Purge, Scope, banned
from edgebox.cache.rules import KeyRules
from edgebox.handlers.operator import Operator
from edgebox.handlers.proxy import Proxy
from edgebox.handlers.site import SiteHandler
from edgebox.http.faults import Fault
from edgebox.http.gate import HeadLimits, inspect
from edgebox.http.headers import Headers
from edgebox.http.message import Request
from edgebox.http.target import parse_target
from edgebox.observe.query import QueryError, compile_query
from edgebox.observe.recorder import Recorder
from edgebox.ops.control.jsonlines import Message
from edgebox.ops.control.wire import Emit, Refused, Wire
from edgebox.route.router import Router
from edgebox.upstream.group import UpstreamGroup

HERE = b"127.0.0.1"  # who an operator's question is taken to come from
LIMITS = HeadLimits(size=60 * 1024, fields=1000, target_length=16 * 1024)
LONGEST_ASKING = 1.0  # seconds that a client's POST waits until other workers know of it
BATCH = 0.1  # seconds that lines of the log are gathered for
MOST = 1000  # lines in a batch; what is beyond is left out, and counted

_EDITS_NOTHING = KeyRules()


class Verbs:
    """The verbs of one worker."""

    def __init__(
        self,
        router: Router[SiteHandler],
        operator: Operator,
        groups: dict[str, UpstreamGroup],
        recorder: Recorder,
    ) -> None:
        self._router = router
        self._operator = operator
        self._groups = groups
        self._recorder = recorder

    def register(self, wire: Wire) -> None:
        """Answer what comes over `wire`, and tell the other workers of a PURGE by HTTP."""
        wire.verbs |= {
            "purge": self.purge,
            "ban": self.ban,
            "explain": self.explain,
            "upstream": self.upstream,
        }
        wire.streams["log"] = self.log

        async def tell_others(purges: Sequence[Purge]) -> str:
            try:
                await wire.ask({"event": "purge", "purges": [_write_down(p) for p in purges]})
            except Refused as problem:
                return str(problem)
            return ""

        async def have_invalidated(purges: Sequence[Purge]) -> None:
            written = [_write_down(p) | {"invalidates": True} for p in purges]
            with trio.move_on_after(LONGEST_ASKING), suppress(Refused):
                await wire.ask({"event": "purge", "purges": written})

        self._operator.tell_others = tell_others
        self._operator.when_invalidating(have_invalidated)

    async def purge(self, message: Message) -> Message:
        """Forget `urls`, `prefixes`, `tags` or `everything`; `purges` is for workers."""
        written = _list(message, "purges")
        if written and all(isinstance(w, dict) and w.get("invalidates") for w in written):
            await self._operator.invalidate([_read_back(each) for each in written])
            return {"purged": 0}
        purges = list(self._purges_of(message))
        if not purges:
            raise Refused("the request does not say what to purge")
        return {"purged": await self._operator.purge(purges)}

    async def ban(self, message: Message) -> Message:
        """Forget what `rule` matches, of all that is stored by now."""
        try:
            purge = banned(_text(message, "rule"), _flag(message, "soft"))
        except BanError as problem:
            raise Refused(str(problem)) from problem
        return {"purged": await self._operator.purge([purge])}

    async def explain(self, message: Message) -> Message:
        """What a GET for `url` with the fields in `headers` would get, and why."""
        fields = message.get("headers", {})
        if not isinstance(fields, dict):
            raise Refused('"headers" is to be an object')
        request = _request(_text(message, "url"), fields)
        route, proxy = self._route_for(request)
        return await self._operator.explain(request, HERE, route, proxy)

    async def upstream(self, message: Message) -> Message:
        """`action` is list, drain or up; the latter two for `server`, in `pool` or everywhere."""
        action = message.get("action", "list")
        if action not in ("list", "drain", "up"):
            raise Refused(f"there is no action {action!r}; there are list, drain, up")
        if action != "list":
            self._set_standing(_text(message, "server"), message.get("pool"), action == "up")
        return {"servers": list(self._servers())}

    async def log(self, message: Message, emit: Emit) -> Message:
        """Answers as they go out, those that `query` means, for as long as somebody listens."""
        text = message.get("query") or ""
        try:
            query = compile_query(str(text)) if text else None
        except QueryError as problem:
            raise Refused(f"the query {text!r} {problem}") from problem
        records: list[dict[str, object]] = []
        left_out = 0
        more = trio.Event()

        def take(record: dict[str, object]) -> None:
            nonlocal left_out
            if query is not None and not query(record):
                return
            if len(records) < MOST:
                records.append(record)
            else:
                left_out += 1
            more.set()

        end = self._recorder.tap(take)
        try:
            emit({"records": [], "left_out": 0})  # from now on nothing is missed
            while True:
                await more.wait()
                await trio.sleep(BATCH)
                more = trio.Event()
                batch, records[:] = records[:], []
                emit({"records": batch, "left_out": left_out})
                left_out = 0
        finally:
            end()

    # --- what they are made of -------------------------------------------------------------

    def _purges_of(self, message: Message) -> Iterator[Purge]:
        soft, everything = _flag(message, "soft"), _flag(message, "everything")
        for written in _list(message, "purges"):
            yield _read_back(written)
        for url in _list(message, "urls"):
            request = _request(_string(url), {})
            proxy = self._route_for(request)[1]
            rules = proxy.policy.keys if proxy is not None else _EDITS_NOTHING
            yield Purge(Scope.KEY, primary_key(request, rules), soft)
        for url in _list(message, "prefixes"):
            request = _request(_string(url).removesuffix("*"), {})
            yield Purge(Scope.PREFIX, primary_key(request, _EDITS_NOTHING), soft)
        for tag in _list(message, "tags"):
            yield Purge(Scope.TAG, _string(tag).encode(), soft)
        if everything:
            yield Purge(Scope.ALL, soft=soft)

    def _route_for(self, request: Request) -> tuple[bytes, Proxy | None]:
        site = self._router.pick(request.host)
        route = site.route_for(request.target) if site is not None else None
        return route if route is not None else (b"", None)

    def _set_standing(self, server: str, pool: object, up: bool) -> None:
        found = False
        for name, group in self._groups.items():
            if pool is not None and pool != name:
                continue
            if server in group.servers:
                (group.up if up else group.drain)(server)
                found = True
        if not found:
            known = sorted({each for group in self._groups.values() for each in group.servers})
            raise Refused(f"there is no upstream server {server}; there are {', '.join(known)}")

    def _servers(self) -> Iterator[dict[str, object]]:
        for name, group in self._groups.items():
            servers = group.statistics()["servers"]
            assert isinstance(servers, dict)
            for server, numbers in servers.items():
                yield {"pool": name, "server": server, **numbers}


def _request(url: str, fields: dict[str, object]) -> Request:
    """The GET for a URL. Raises Refused where no client could send it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise Refused(f"{url!r} is no URL: want http://HOST/PATH")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    given = {"Host": parts.netloc} | {
        "Host" if name.lower() == "host" else name: value for name, value in fields.items()
    }
    lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    try:
        head = inspect("".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1"), LIMITS)
    except UnicodeEncodeError:
        raise Refused(f"{url!r} has characters that HTTP has not: encode them") from None
    asked = head if isinstance(head, Fault) else parse_target(head.method, head.target)
    if isinstance(head, Fault) or isinstance(asked, Fault):
        raise Refused(f"no client could ask for {url!r} so: {_reason(head, asked)}")
    return Request(head.method, asked, head.host, Headers(head.fields))


def _reason(*found: object) -> str:
    return next(fault.value.text for fault in found if isinstance(fault, Fault))


def _write_down(purge: Purge) -> dict[str, object]:
    """A purge as a worker is told it; keys are octets, so each octet is a character."""
    return {
        "scope": purge.scope.value,
        "value": purge.value.decode("latin-1"),
        "soft": purge.soft,
    }


def _read_back(written: object) -> Purge:
    """What `_write_down` gave."""
    if not isinstance(written, dict):
        raise Refused("a purge is to be an object")
    try:
        scope = Scope(written.get("scope"))
        value = _string(written.get("value")).encode("latin-1")
        soft = bool(written.get("soft"))
        return banned(value.decode(), soft) if scope is Scope.BAN else Purge(scope, value, soft)
    except ValueError as problem:  # BanError is one
        raise Refused(f"no purge: {problem}") from problem


def _text(message: Message, name: str) -> str:
    """A key of a request that must be there."""
    value = message.get(name)
    if not isinstance(value, str) or not value:
        raise Refused(f'"{name}" is missing')
    return value


def _flag(message: Message, name: str) -> bool:
    """A key that is true or false; "false" in quotes would else purge all there is."""
    value = message.get(name, False)
    if not isinstance(value, bool):
        raise Refused(f'"{name}" is to be true or false')
    return value


def _list(message: Message, name: str) -> list[object]:
    value = message.get(name, [])
    if not isinstance(value, list):
        raise Refused(f'"{name}" is to be a list')
    return value


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise Refused(f"{value!r} is to be a text")
    return value
