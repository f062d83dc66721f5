package bridge

// The names of the files in the two directories. They are matched whole, byte
// by byte: what a program put there may hold anything but NUL and slash.
const (
	reqPrefix   = "req_"
	reqSuffix   = ".json"
	resultName  = "result.json"
	respPrefix  = "resp_"
	respSuffix  = ".json"
	doneSuffix  = ".done"
	spillPrefix = "spill_"
	spillSuffix = ".json"
	bellName    = "bell"
	bellPrefix  = "bell_"
	// maxID is the longest request id in bytes.
	maxID = 64
)

// requestID returns the id in a request file's name, false for any other name.
func requestID(name string) (string, bool) {
	if len(name) <= len(reqPrefix)+len(reqSuffix) || len(name) > len(reqPrefix)+maxID+len(reqSuffix) {
		return "", false
	}
	end := len(name) - len(reqSuffix)
	if name[:len(reqPrefix)] != reqPrefix || name[end:] != reqSuffix {
		return "", false
	}
	id := name[len(reqPrefix):end]
	return id, validID(id)
}

// validID reports whether id matches ^[A-Za-z0-9_-]{1,64}$.
func validID(id string) bool {
	if id == "" || len(id) > maxID {
		return false
	}
	for i := range len(id) {
		if !alphanumeric(id[i]) && id[i] != '_' && id[i] != '-' {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// maxToolName is the longest tool name in bytes, as in MCP.
const maxToolName = 128

// validToolName reports whether a name is one that MCP allows: 1 to 128 of
// letters, digits, underscore, hyphen and dot.
func validToolName(name string) bool {
	if name == "" || len(name) > maxToolName {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !alphanumeric(c) && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}
