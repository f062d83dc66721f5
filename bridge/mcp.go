package bridge

import (
	"encoding/json"
	"errors"
	"strings"
)

// UnwrapMCP turns the result of an MCP tools/call into a tool's result: what
// structuredContent holds, else the text if there is nothing but text, else the
// content list as it is. isError becomes a [*ToolError] with the text.
func UnwrapMCP(raw json.RawMessage) (json.RawMessage, error) {
	var r struct {
		Content           []json.RawMessage `json:"content"`
		StructuredContent json.RawMessage   `json:"structuredContent"`
		IsError           bool              `json:"isError"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, errors.New("not an MCP result")
	}
	var texts []string
	for _, c := range r.Content {
		var t struct {
			Type string  `json:"type"`
			Text *string `json:"text"`
		}
		if json.Unmarshal(c, &t) == nil && t.Type == "text" && t.Text != nil {
			texts = append(texts, *t.Text)
		}
	}
	text := strings.Join(texts, "\n")
	switch {
	case r.IsError:
		if text == "" {
			text = "the tool failed"
		}
		return nil, &ToolError{Message: text}
	case r.StructuredContent != nil && string(r.StructuredContent) != "null":
		return r.StructuredContent, nil
	case len(texts) == len(r.Content):
		return json.Marshal(text)
	default:
		return json.Marshal(r.Content)
	}
}
