// Command embed is a host program as somebody else would write it: a module of
// its own that imports the library, offers a tool of each kind and runs one
// program. It says on standard output what came of it, as JSON.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/bridge/gofunc"
	"github.com/sbxrun/sbxrun/runtime"
)

const program = `
import socket
from sbx_tools import *
print(add(a=2, b=40), shout(text="hi"))
try: socket.create_connection(("1.1.1.1", 443))
except OSError as e: print(e.strerror)
set_result({"sum": add(a=1, b=1)})
`

type outcome struct {
	Output string
	Result *runtime.Result
}

func main() {
	if err := embed(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

func embed(stateDir string) error {
	tools, err := offer()
	if err != nil {
		return err
	}
	host, err := runtime.Open(runtime.Options{StateDir: stateDir})
	if err != nil {
		return err
	}
	defer host.Close()
	policy := runtime.NewPolicy("/usr/bin/python3", "-c", program)
	policy.Limits.Timeout = time.Minute
	policy.Bridge.Tools = tools
	var out bytes.Buffer
	result, err := host.Run(context.Background(), policy, runtime.RunOptions{Stdout: &out, Stderr: os.Stderr})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(outcome{out.String(), result})
}

// offer makes one tool of a Go function and one of a command.
func offer() (*bridge.Set, error) {
	type numbers struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	add, err := gofunc.New("add", "Adds two numbers.",
		func(_ context.Context, n numbers) (int, error) { return n.A + n.B, nil })
	if err != nil {
		return nil, err
	}
	// The arguments come as JSON on standard input; a JSON value goes back.
	upper, err := bridge.Command([]string{"sed", `s/.*"text": *"\([^"]*\)".*/"\U\1"/`}, nil)
	if err != nil {
		return nil, err
	}
	return bridge.NewSet([]bridge.Tool{add, {Name: "shout", Description: "Makes a text loud.", Handler: upper,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`)}})
}
