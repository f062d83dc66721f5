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
        name = _encoded.get(tool)
        if name is None:
            name = _dumps(tool)
            if len(_encoded) < 1000:
                _encoded[tool] = name
        body = b'{"v":1,"tool":%b,"args":%b' % (name, _dumps(args))
        self.deadline = _time.monotonic() + _FINAL
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
        if _time.monotonic() > self.deadline:
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
            # The reply cannot be there before the first wait; a byte that came
            # meanwhile stays in the doorbell.
            if slot is not None:
                if slot.poll.poll(_STEP_MS):
                    slot.drain()
            else:
                _time.sleep(delay)
                delay = min(delay * 2, _POLL_LAST)
            raw = _read(self.reply)
            if raw is not None:
                return raw
            self.late()

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


