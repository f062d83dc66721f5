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
_FINAL = 600.0  # without a timeout: past the run's or any tool's, the reply is lost
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


_encode = None  # made with the first call: json costs an import
_encoded = {}  # tool name -> its JSON


def _dumps(v):
    global _encode
    if _encode is None:
        import json

        _encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
    packed = _pack(v)
    try:
        return _encode(packed).encode("ascii")
    except (ValueError, RecursionError) as e:
        raise InvalidArguments("InvalidArguments: %s" % e) from None


def _loads(raw, tool, rid):
    import json

    try:
        return json.loads(raw, object_hook=_untag if b'"$sbx"' in raw else None)
    except (ValueError, RecursionError) as e:
        raise ToolError("ToolError: the result cannot be read: %s" % e, tool=tool, id=rid) from None


