package bridge

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
)

// compileLibrary compiles a schema for the library's own check.
func compileLibrary(text string) (*jsonschema.Resolved, error) {
	s := new(jsonschema.Schema)
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return nil, err
	}
	return s.Resolve(nil)
}
