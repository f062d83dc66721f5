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

    async def timed_aio(_sbx_name, /, **args):
        return await _acall(_raw_name(_sbx_name), args, timeout)

    timed.aio = timed_aio
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
