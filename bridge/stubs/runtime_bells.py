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

