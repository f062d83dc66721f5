package bridge

import "time"

// The default limits and the constants of the protocol. Everything in [Limits]
// can be configured; "unlimited" does not exist.
const (
	// DefaultMaxCalls is the number of calls that a run may make. It is enough for
	// an ordinary program and small enough that a loop gone wild ends soon.
	DefaultMaxCalls = 50
	// DefaultConcurrency is the number of calls of one sandbox that run at once.
	DefaultConcurrency = 8
	// DefaultToolTimeout bounds one call of a tool that names no timeout.
	DefaultToolTimeout = 30 * time.Second
	// DefaultRequest is the largest request body in bytes: arguments are text
	// that a program composes, and every byte is parsed by the host.
	DefaultRequest = 1 << 20
	// DefaultReply is the largest result in bytes that travels inside the reply;
	// a client reads the reply whole, so larger ones go to a file of their own.
	DefaultReply = 8 << 20
	// DefaultResult is the largest result in bytes at all: half of the reply
	// quota, so that one result cannot push out all others.
	DefaultResult = 32 << 20
	// DefaultReplyQuota is the number of bytes of replies that nobody has fetched
	// yet. They live in the host's memory.
	DefaultReplyQuota = 64 << 20
	// DefaultReplyFiles is the number of replies that nobody has fetched yet; each
	// takes two or three inodes of the reply file system.
	DefaultReplyFiles = 1024
	// DefaultDepth is the deepest nesting of a request.
	DefaultDepth = 64
	// DefaultNodes is the number of JSON values in a request: 1 MiB of `[],`
	// would cost 37 MiB once decoded.
	DefaultNodes = 10_000
	// DefaultFlood is the number of refused requests after which the run ends: a
	// program with an honest bug stops long before.
	DefaultFlood = 1000
	// DefaultQueue is the number of accepted requests that wait for a free slot.
	DefaultQueue = 1024

	// noiseFactor times the flood limit is the number of meaningless events
	// (names that are no requests) after which the run ends. They cost far less
	// than a refusal, and an honest client makes none.
	noiseFactor = 100
	// maxResultFile is the largest run result (result.json) in bytes.
	maxResultFile = 8 << 20
	// maxResultNodes bounds the JSON values in a run result. It is only checked,
	// never decoded, so it may be generous.
	maxResultNodes = 1 << 20
	// maxTimeoutMS is the largest timeout_ms of a request: 24 days, far beyond
	// any run, and safe to turn into a duration.
	maxTimeoutMS = 1<<31 - 1
	// maxNumberDigits bounds the text of one number. Beyond it, Python refuses
	// the conversion, and arithmetic on it would cost the host quadratic time.
	maxNumberDigits = 4300
	// maxErrorText bounds the text of an error that a program reads, in bytes.
	maxErrorText = 2048
	// maxKnownTools bounds the names listed in the details of unknown_tool.
	maxKnownTools = 256
	// maxToolEcho bounds a tool's name that a program made up, in errors and
	// audit records, in bytes.
	maxToolEcho = 128

	// sweepEvery is how often the request directory is read whole, because
	// events are only hints.
	sweepEvery = 250 * time.Millisecond
	// sweepGap is the least time between two sweeps that events asked for, so
	// that a sandbox that overflows the queue costs a bounded share of a CPU.
	sweepGap = 5 * time.Millisecond
	// pollMin and pollMax bound the polling interval where there is no inotify.
	pollMin = 1 * time.Millisecond
	pollMax = 20 * time.Millisecond
	// pendingNames is how many event names one sandbox may have waiting; past it
	// they are dropped for a sweep.
	pendingNames = 2048

	// maxEvents is how many events of one sandbox are read within eventWindow.
	// Beyond it the watch is taken off for eventRest and the sweeps alone find the
	// requests: 64 callers that do nothing else make half as many. Of noise, which
	// honest programs hardly make, fewer are enough.
	maxEvents   = 10_000
	maxNoise    = 500
	eventWindow = 250 * time.Millisecond
	eventRest   = time.Second
	// freeResults is how many times a program may write its result before more of
	// them count as noise.
	freeResults = 16

	// replyKeep is how long a reply is left alone before it may become a short
	// one that makes room: a caller that waits reads within milliseconds.
	replyKeep = 10 * time.Second
	// smallReply is a reply in bytes that is written whatever the quota says: the
	// budget and the flood limit bound their number.
	smallReply = 16 << 10
	// maxQueuedArgs and maxResults bound what the calls of one sandbox hold in the
	// host's memory: requests from their claim to their answer, and results from
	// their handler's return until they are published.
	maxQueuedArgs = 32 << 20
	maxResults    = 64 << 20

	// maxRecords is how many audit records may wait for the sink; each is a call
	// that ran before its record was written.
	maxRecords = 2048
	// maxDetail bounds the text that only the host reads, in bytes.
	maxDetail = 16 << 10
	// auditGrace is how long Close waits for the sink.
	auditGrace = 2 * time.Second

	// cancelGrace is how long a cancelled tool may take to return before its call
	// is answered without it. Half of the 100 ms that the protocol allows.
	cancelGrace = 50 * time.Millisecond

	// firstSlots is the number of doorbells made at the start: each costs about
	// 10 us, and most programs call from one or two threads.
	firstSlots = 2
	// maxSlots is the number of doorbells at most. Callers beyond it poll.
	maxSlots = 64
)

// Limits are the sizes that the bridge enforces. A zero field means its default.
type Limits struct {
	// Request is the largest request body, in bytes.
	Request int
	// Reply is the largest result inside a reply, in bytes; a larger one is
	// spilled to a file.
	Reply int
	// Result is the largest result at all, in bytes; at most half of ReplyQuota.
	Result int
	// ReplyQuota is the most bytes of unfetched replies. Beyond it those that lie
	// there for 10 s become short too_large replies, and new calls are answered
	// `overloaded`.
	ReplyQuota int64
	// ReplyFiles is the most unfetched replies; further calls are `overloaded`.
	ReplyFiles int
	// Depth is the deepest nesting of a request.
	Depth int
	// Nodes is the most JSON values in a request.
	Nodes int
	// Flood is the number of refused requests after which the run ends.
	Flood int
	// Queue is the number of requests that wait for a free slot.
	Queue int

	keep time.Duration // replyKeep; tests shorten it
}

// withDefaults fills the zero fields.
func (l Limits) withDefaults() Limits {
	def := func(p *int, d int) {
		if *p == 0 {
			*p = d
		}
	}
	def(&l.Request, DefaultRequest)
	def(&l.Reply, DefaultReply)
	if l.ReplyQuota == 0 {
		l.ReplyQuota = DefaultReplyQuota
	}
	def(&l.Result, int(min(DefaultResult, l.ReplyQuota/2)))
	def(&l.ReplyFiles, DefaultReplyFiles)
	def(&l.Depth, DefaultDepth)
	def(&l.Nodes, DefaultNodes)
	def(&l.Flood, DefaultFlood)
	def(&l.Queue, DefaultQueue)
	if l.keep == 0 {
		l.keep = replyKeep
	}
	return l
}

// valid reports whether no field is negative.
func (l Limits) valid() bool {
	return l.Request > 0 && l.Reply > 0 && l.Result > 0 && l.ReplyQuota > 0 && l.ReplyFiles > 0 &&
		l.Depth > 0 && l.Nodes > 0 && l.Flood > 0 && l.Queue > 0
}
