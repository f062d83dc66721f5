package bridge

import (
	"encoding/json"
	"testing"
)

func TestUnwrapMCP(t *testing.T) {
	for in, want := range map[string]string{
		`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`:                 `"a\nb"`,
		`{"content":[{"type":"text","text":"a"}],"structuredContent":{"n":9007199254740993}}`: `{"n":9007199254740993}`,
		`{"content":[{"type":"text","text":"a"},{"type":"image","data":"x"}]}`:                `[{"type":"text","text":"a"},{"type":"image","data":"x"}]`,
		`{"content":[]}`: `""`,
		`{"content":[{"type":"text","text":"no city"}],"isError":true}`: "ToolError: no city",
		`{"isError":true}`: "ToolError: the tool failed",
		`[]`:               "not an MCP result",
	} {
		got, err := UnwrapMCP(json.RawMessage(in))
		if err != nil && err.Error() != want || err == nil && string(got) != want {
			t.Errorf("%s: got %s %v, want %s", in, got, err, want)
		}
	}
}
