"""Tools of this sandbox, as Python functions. Generated: do not edit.

    from sbx_tools import *
    print(list_tools())                       # what there is
    value = some_tool("x", option=1)          # blocking; threads and forks are fine
    value = await some_tool.aio("x")          # asyncio
    value = some_tool.options(timeout=5)("x") # seconds
    value = call("any-name", **{"odd arg": 1})
    set_result({"answer": value})             # the run's result

Failures are ToolError or a subclass, with .tool .id .code .type .hint .details
"""
from __future__ import annotations

import _thread
import errno as _errno
import os as _os
import time as _time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Literal, Optional, Union

_BRIDGE = _os.environ.get("SBX_BRIDGE") or "/workspace/.bridge"
_REQ = _BRIDGE + "/req/"
_RESP = _BRIDGE + "/resp/"

_STEP_MS = 20  # a lost wake-up costs at most this
_POLL_FIRST = 0.0002  # without a doorbell: the first wait, in seconds
_POLL_LAST = 0.02  # ... and the longest
_MAX_SLOTS = 64  # doorbells that the host makes at most
_GRACE = 2.0  # the host answers a timeout itself; this is for a host that cannot
_MAX_DEPTH = 60  # the host refuses a request nested deeper than 64
_MAX_REQUEST = 1 << 20  # bytes, the host's default limit
_MAX_RESULT = 8 << 20  # bytes of set_result


class ToolError(Exception):
    """A tool call failed. Attributes: tool, id, code, type, hint, details."""

    _code = "tool_error"

    def __init__(self, message="", *, tool=None, id=None, code=None, type=None, hint=None, details=None):
        super().__init__(message)
        self.tool, self.id = tool, id
        self.code = code or self._code
        self.type = type or self.__class__.__name__
        self.hint, self.details = hint, details


class ToolTimeout(ToolError):
    """The tool did not answer in time."""

    _code = "timeout"


class ToolNotFound(ToolError):
    """There is no such tool; details["known"] lists the names."""

    _code = "unknown_tool"


class InvalidArguments(ToolError):
    """The arguments break the tool's schema, or cannot be sent."""

    _code = "invalid_args"


class ToolDenied(ToolError):
    """The call was not approved."""

    _code = "denied"


class BudgetExceeded(ToolError):
    """The tool calls of this run are used up."""

    _code = "budget_exceeded"


class ResultTooLarge(ToolError):
    """A request or a result is over its limit."""

    _code = "too_large"


class BridgeClosed(ToolError):
    """There is no bridge, or the run is over."""

    _code = "closed"


_BY_CODE = {
    c._code: c
    for c in (ToolTimeout, ToolNotFound, InvalidArguments, ToolDenied, BudgetExceeded, ResultTooLarge, BridgeClosed)
}

# Values --------------------------------------------------------------------


def _pack(v, depth=0):
    """Returns v as plain JSON values; what JSON cannot hold is tagged or refused."""
    if v is None or v is True or v is False or isinstance(v, (str, int)):
        return v
    if isinstance(v, float):
        if v == v and v - v == 0:
            return v
        return {"$sbx": "float", "v": "nan" if v != v else "inf" if v > 0 else "-inf"}
    if isinstance(v, (bytes, bytearray, memoryview)):
        import binascii

        return {"$sbx": "bytes", "v": binascii.b2a_base64(bytes(v), newline=False).decode("ascii")}
    if depth > _MAX_DEPTH:
        raise InvalidArguments("InvalidArguments: nested deeper than %d, or contains itself" % _MAX_DEPTH)
    if isinstance(v, dict):
        out = {}
        for key, item in v.items():
            if not isinstance(key, str):
                raise InvalidArguments("InvalidArguments: the key %r is no text" % (key,))
            if key == "$sbx":
                raise InvalidArguments("InvalidArguments: the key '$sbx' is reserved")
            out[key] = _pack(item, depth + 1)
        return out
    if isinstance(v, (list, tuple)):
        return [_pack(item, depth + 1) for item in v]
    raise InvalidArguments(
        "InvalidArguments: a value of type %s cannot be sent" % type(v).__name__,
        hint="use None, bool, int, float, str, bytes, list or dict",
    )


def _untag(d):
    if len(d) == 2 and "v" in d:
        kind, v = d.get("$sbx"), d["v"]
        if kind == "float" and v in ("nan", "inf", "-inf"):
            return float(v)
        if kind == "bytes" and isinstance(v, str):
            import binascii

            return binascii.a2b_base64(v)
    return d


def _dumps(v):
    import json

    packed = _pack(v)
    try:
        return json.dumps(packed, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (ValueError, RecursionError) as e:
        raise InvalidArguments("InvalidArguments: %s" % e) from None


def _loads(raw, tool, rid):
    import json

    try:
        return json.loads(raw, object_hook=_untag if b'"$sbx"' in raw else None)
    except (ValueError, RecursionError) as e:
        raise ToolError("ToolError: the result cannot be read: %s" % e, tool=tool, id=rid) from None


# Doorbells -----------------------------------------------------------------


class _Slot:
    """A doorbell that this process holds: the lock ends with the process."""

    __slots__ = ("n", "fd", "poll")

    def __init__(self, n, fd):
        import select

        self.n, self.fd = n, fd
        self.poll = select.poll()
        self.poll.register(fd, select.POLLIN)

    def drain(self):
        try:
            _os.read(self.fd, 512)
        except OSError:
            pass


_lock = _thread.allocate_lock()
_slots = {}  # number -> slot, all that this process holds
_free = []  # those that no call uses now
_scan_at = 0.0  # do not look for a free doorbell before
_ask = -1  # the doorbell to ask the host for


def _claim():
    """Returns (slot, None), or (None, number to ask for) when none is free."""
    global _scan_at, _ask
    with _lock:
        if _free:
            slot = _free.pop()
            return slot, slot.n
        if _time.monotonic() < _scan_at:
            return None, _ask
        import fcntl

        _ask = -1
        for n in range(_MAX_SLOTS):
            if n in _slots:
                continue
            try:
                fd = _os.open(_RESP + "bell_%d" % n, _os.O_RDONLY | _os.O_NONBLOCK | _os.O_CLOEXEC)
            except OSError as e:
                if e.errno == _errno.ENOENT:
                    _ask = n
                break
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                _os.close(fd)
                continue
            slot = _slots[n] = _Slot(n, fd)
            return slot, n
        _scan_at = _time.monotonic() + 0.002
        return None, _ask


def _release(slot):
    if slot is not None:
        with _lock:
            if _slots.get(slot.n) is slot:
                _free.append(slot)


def _after_fork():
    """The child lets go of its parent's doorbells; the parent keeps the locks."""
    global _lock, _slots, _free, _scan_at
    for slot in _slots.values():
        try:
            _os.close(slot.fd)
        except OSError:
            pass
    _lock, _slots, _free, _scan_at = _thread.allocate_lock(), {}, [], 0.0


_os.register_at_fork(after_in_child=_after_fork)

# Calls ---------------------------------------------------------------------


def _write(path, temp, data):
    try:
        fd = _os.open(temp, _os.O_WRONLY | _os.O_CREAT | _os.O_EXCL | _os.O_CLOEXEC, 0o644)
        try:
            while data:
                data = data[_os.write(fd, data):]
        finally:
            _os.close(fd)
        _os.rename(temp, path)
    except BaseException:
        try:
            _os.unlink(temp)
        except OSError:
            pass
        raise


def _read(path):
    """Returns the bytes of a file that is complete as soon as it is there."""
    try:
        fd = _os.open(path, _os.O_RDONLY | _os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        parts = []
        while True:
            part = _os.read(fd, 1 << 16 if not parts else 1 << 22)
            if len(part) < 1 << 16 and not parts:
                return part
            if not part:
                return b"".join(parts)
            parts.append(part)
    finally:
        _os.close(fd)


class _Request:
    """A request that was sent."""

    __slots__ = ("tool", "id", "path", "reply", "slot", "deadline")

    def __init__(self, tool, args, timeout):
        self.tool = tool
        self.id = rid = _os.urandom(16).hex()
        self.path = _REQ + "req_" + rid + ".json"
        self.reply = _RESP + "resp_" + rid + ".json"
        body = b'{"v":1,"tool":%b,"args":%b' % (_dumps(tool), _dumps(args))
        self.deadline = None
        if timeout is not None:
            if not timeout > 0:
                raise InvalidArguments("InvalidArguments: the timeout must be positive", tool=tool)
            ms = min(max(int(timeout * 1000), 1), 2**31 - 1)
            body += b',"timeout_ms":%d' % ms
            self.deadline = _time.monotonic() + timeout + _GRACE
        self.slot, bell = _claim()
        if bell >= 0:
            body += b',"bell":%d' % bell
        try:
            _write(self.path, self.path + ".tmp", body + b"}")
        except OSError as e:
            self.done()
            raise _send_error(e, tool, rid, len(body)) from None
        except BaseException:
            self.done()
            raise

    def late(self):
        """Raises when the host did not even answer a timeout."""
        if self.deadline is not None and _time.monotonic() > self.deadline:
            raise ToolTimeout("ToolTimeout: no answer in time", tool=self.tool, id=self.id)

    def done(self):
        """Acknowledges: the host may drop the reply."""
        slot, self.slot = self.slot, None
        _release(slot)
        try:
            _os.unlink(self.path)
        except OSError:
            pass

    def wait(self):
        slot, delay = self.slot, _POLL_FIRST
        while True:
            raw = _read(self.reply)
            if raw is not None:
                return raw
            self.late()
            if slot is not None:
                if slot.poll.poll(_STEP_MS):
                    slot.drain()
            else:
                _time.sleep(delay)
                delay = min(delay * 2, _POLL_LAST)

    def result(self, raw):
        """Returns the reply's result or raises its error."""
        reply = _loads(raw, self.tool, self.id)
        if "result" in reply:
            return reply["result"]
        if "spill" in reply:
            return self.spilled(reply["spill"])
        code = reply.get("code") or "tool_error"
        raise _BY_CODE.get(code, ToolError)(
            reply.get("error") or code, tool=self.tool, id=self.id, code=code,
            type=reply.get("type"), hint=reply.get("hint"), details=reply.get("details"),
        )

    def spilled(self, spill):
        import hashlib

        raw = _read(_RESP + _os.path.basename(spill["path"]))
        if raw is None or len(raw) != spill["size"] or hashlib.sha256(raw).hexdigest() != spill["sha256"]:
            raise ResultTooLarge("ResultTooLarge: the result is no longer there", tool=self.tool, id=self.id)
        return _loads(raw, self.tool, self.id)


def _send_error(e, tool, rid, size):
    if e.errno in (_errno.ENOSPC, _errno.EDQUOT):
        if size > _MAX_REQUEST:
            return ResultTooLarge("ResultTooLarge: the request has %d bytes" % size, tool=tool, id=rid)
        return ToolError("Overloaded: no room for the request", tool=tool, id=rid, code="overloaded", type="Overloaded")
    return BridgeClosed("BridgeClosed: the request cannot be written: %s" % _os.strerror(e.errno), tool=tool, id=rid)


def _call(tool, args, timeout):
    req = _Request(tool, args, timeout)
    try:
        return req.result(req.wait())
    finally:
        req.done()


async def _acall(tool, args, timeout):
    import asyncio

    loop = asyncio.get_running_loop()
    req = _Request(tool, args, timeout)
    try:
        return req.result(await _await_reply(asyncio, loop, req))
    finally:
        req.done()


async def _await_reply(asyncio, loop, req):
    slot, delay, woken = req.slot, _POLL_FIRST, None

    def wake():
        if slot is not None:
            slot.drain()
        if woken is not None and not woken.done():
            woken.set_result(None)

    watching = False
    if slot is not None:
        try:
            loop.add_reader(slot.fd, wake)
            watching = True
        except NotImplementedError:
            pass
    try:
        while True:
            raw = _read(req.reply)
            if raw is not None:
                return raw
            req.late()
            if not watching:
                await asyncio.sleep(delay)
                delay = min(delay * 2, _POLL_LAST)
                continue
            woken = loop.create_future()
            timer = loop.call_later(_STEP_MS / 1000, wake)
            try:
                await woken
            finally:
                timer.cancel()
    finally:
        if watching:
            loop.remove_reader(slot.fd)


class _O:
    """The default of an optional argument: it is not sent at all."""

    __slots__ = ("text",)

    def __init__(self, text="<omitted>"):
        self.text = text

    def __repr__(self):
        return self.text


def _tool(raw, rename=None):
    """Makes a tool of a function that returns (arguments by name, further ones)."""

    def wrap(bind):
        def args_of(a, k):
            if rename:
                k = {rename.get(name, name): v for name, v in k.items()}
            named, more = bind(*a, **k)
            args = {name: v for name, v in named.items() if v.__class__ is not _O}
            args.update(more)
            return args

        return _public(raw, args_of, bind)

    return wrap


def _public(raw, args_of, like):
    def tool(*a, **k):
        return _call(raw, args_of(a, k), None)

    async def aio(*a, **k):
        return await _acall(raw, args_of(a, k), None)

    def options(*, timeout=None):
        """Returns the tool with a timeout in seconds."""

        def timed(*a, **k):
            return _call(raw, args_of(a, k), timeout)

        async def timed_aio(*a, **k):
            return await _acall(raw, args_of(a, k), timeout)

        timed.aio = timed_aio
        return timed

    for f in (tool, aio):
        f.__name__ = f.__qualname__ = like.__name__
        f.__doc__, f.__wrapped__, f.tool_name = like.__doc__, like, raw
        f.__annotations__ = like.__annotations__
    tool.aio, tool.options = aio, options
    return tool


def _raw_name(name):
    f = _NAMES.get(name)
    return name if f is None else f


def call(_sbx_name, /, **args):
    """Calls a tool by its own name, whatever characters it and its arguments have."""
    return _call(_raw_name(_sbx_name), args, None)


async def _call_aio(_sbx_name, /, **args):
    return await _acall(_raw_name(_sbx_name), args, None)


def _call_options(*, timeout=None):
    """Returns call with a timeout in seconds."""

    def timed(_sbx_name, /, **args):
        return _call(_raw_name(_sbx_name), args, timeout)

    return timed


call.aio, call.options = _call_aio, _call_options


def list_tools():
    """Returns [{"name", "description"}, ...] of all tools."""
    return [{"name": t["name"], "description": t.get("description", "")} for t in _described()]


def describe(name):
    """Returns one tool's name, description, inputSchema and outputSchema."""
    for t in _described():
        if t["name"] == _raw_name(name):
            return t
    raise ToolNotFound("ToolNotFound: there is no tool %r" % (name,), tool=name, details={"known": list(_RAW)})


def _described():
    raw = _read(_BRIDGE + "/tools.json")
    if raw is None:
        raise BridgeClosed("BridgeClosed: there is no bridge")
    import json

    return json.loads(raw)["tools"]


def set_result(value):
    """Hands the run's result to the host, apart from standard output. The last one counts."""
    data = _dumps(value)
    if len(data) > _MAX_RESULT:
        raise ResultTooLarge("ResultTooLarge: the result has %d bytes, the limit is %d" % (len(data), _MAX_RESULT))
    try:
        _write(_REQ + "result.json", _REQ + "result.json." + _os.urandom(8).hex() + ".tmp", data)
    except OSError as e:
        raise _send_error(e, None, None, len(data)) from None


# Tools ---------------------------------------------------------------------
