// Command embed runs a Python snippet in a sandbox, with one Go function as its
// only way out.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/bridge/gofunc"
	"github.com/sbxrun/sbxrun/runtime"
)

const snippet = `
from sbx_tools import get_weather, set_result
print(get_weather(city="Rome"))
set_result({"answer": 42})
`

type place struct {
	City string `json:"city" jsonschema:"the city's name"`
}

func weather(_ context.Context, p place) (string, error) {
	return "sunny in " + p.City, nil
}

func run(stdout, stderr io.Writer) error {
	host, err := runtime.Open(runtime.Options{}) // once per process
	if err != nil {
		return err
	}
	defer host.Close()

	tool, err := gofunc.New("get-weather", "Tells the weather of a city.", weather)
	if err != nil {
		return err
	}
	tools, err := bridge.NewSet([]bridge.Tool{tool})
	if err != nil {
		return err
	}

	policy := runtime.NewPolicy("python3", "-c", snippet) // with all default limits
	policy.Limits.SetMemory(128 << 20)
	policy.Bridge.Tools = tools

	result, err := host.Run(context.Background(), policy, runtime.RunOptions{Stdout: stdout, Stderr: stderr})
	if err != nil {
		return err // refused or not set up: the program did not start
	}
	fmt.Fprintf(stdout, "%s, %s, %d tool call\n", result.Reason, result.Value, result.ToolCalls.Total)
	return nil
}

func main() {
	if err := run(os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}
