package probe

import (
	"encoding/json"
	"os"
	"time"
)

// The bridge's folders, where every sandbox has them.
const (
	bridgeDir = "/workspace/.bridge"
	reqDir    = bridgeDir + "/req"
	respDir   = bridgeDir + "/resp"
)

// callWait and callPoll bound the wait for the tool's answer.
const (
	callWait = 10 * time.Second
	callPoll = time.Millisecond
)

func bridgeAttempts() []attempt {
	return []attempt{
		{"bridge-list-replies", func(*Config) string { return listDir(respDir) }},
		{"bridge-list-requests", func(*Config) string { return listDir(reqDir) }},
		{"bridge-forge-reply", func(*Config) string { return createFile(respDir + "/resp_forged.json") }},
		{"bridge-change-tools", func(*Config) string { return openForWrite(bridgeDir + "/tools.json") }},
		{"bridge-replace", func(*Config) string { return answer(os.Rename(bridgeDir, "/workspace/moved")) }},
		{"bridge-replace-replies", func(*Config) string { return answer(os.Rename(respDir, "/workspace/moved")) }},
		{"tool-call", callTool},
	}
}

func listDir(path string) string {
	_, err := os.ReadDir(path)
	return answer(err)
}

// callTool makes one call as any client does: a file there, a file back.
func callTool(c *Config) string {
	const id = "selftest"
	request, err := json.Marshal(map[string]any{"v": 1, "tool": c.Tool, "args": map[string]string{"text": c.Nonce}})
	if err != nil {
		return err.Error()
	}
	final := reqDir + "/req_" + id + ".json"
	if err := os.WriteFile(final+".tmp", request, 0o644); err != nil {
		return answer(err)
	}
	if err := os.Rename(final+".tmp", final); err != nil {
		return answer(err)
	}
	for end := time.Now().Add(callWait); time.Now().Before(end); time.Sleep(callPoll) {
		text, err := os.ReadFile(respDir + "/resp_" + id + ".json")
		if err != nil {
			continue
		}
		var reply struct {
			Result string `json:"result"`
			Error  string `json:"error"`
		}
		if err := json.Unmarshal(text, &reply); err != nil {
			return "the answer is not JSON"
		}
		_ = os.Remove(final) // the acknowledgement
		if reply.Error != "" {
			return "error: " + reply.Error
		}
		return reply.Result
	}
	return "no answer"
}
