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

// plainNumbers turns numbers into what the library takes for numbers.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plainNumbers(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = plainNumbers(e)
		}
		return out
	default:
		return v
	}
}
