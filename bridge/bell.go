package bridge

import (
	"strconv"

	"github.com/sbxrun/sbxrun/internal/sys"
)

// The doorbells. Each bell_<n> is a slot that one caller inside claims with an
// exclusive flock on its own open file, which the kernel releases when the caller
// dies. The caller's request names the slot, the reply to it writes one byte there.
//
//	program                               host
//	open bell_0 O_RDONLY, flock -> taken
//	open bell_1 O_RDONLY, flock -> mine
//	req_X {"bell":1,...}  ------------->  1 is the highest slot: make bell_2, bell_3
//	poll(bell_1)                          run the tool
//	                      <-------------  resp_X.json, resp_X.done, byte to bell_1
//	read byte, read reply, unlink req_X
//
// A caller that finds every slot taken polls, and asks for more by naming the
// first slot that does not exist. The bytes mean nothing by themselves: one too
// many costs a look at the directory, one too few costs a polling step.

// addBells makes slots up to n. Only the intake calls it, and Serve before.
func (s *Server) addBells(n int) error {
	for i := len(s.bells); i < n; i++ {
		fd, err := sys.DirFifo(s.respFD, bellPrefix+strconv.Itoa(i), bellMode)
		if err != nil {
			return err
		}
		s.bellMu.Lock()
		s.bells = append(s.bells, fd)
		s.bellMu.Unlock()
	}
	return nil
}

// growBells doubles the slots when a request names the highest one or the one
// after it. Without room for more the callers poll, so a failure is none.
func (s *Server) growBells(n int) {
	if have := len(s.bells); n >= have-1 && have > 0 && have < maxSlots {
		if err := s.addBells(min(2*have, maxSlots)); err != nil {
			s.audit(Record{Event: "doorbells", Detail: err.Error()})
		}
	}
}

// ring wakes the caller of a slot, or those that named none. It never waits.
func (s *Server) ring(n int) {
	s.bellMu.RLock()
	defer s.bellMu.RUnlock()
	fd := s.bell
	if n >= 0 {
		if n >= len(s.bells) {
			return
		}
		fd = s.bells[n]
	}
	if fd >= 0 {
		sys.DirPoke(fd)
	}
}
