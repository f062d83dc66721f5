package runtime_test

import (
	"context"
	"fmt"
	"os"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/bridge/gofunc"
	"github.com/sbxrun/sbxrun/runtime"
)

// A host offers one tool; the program has no network and reaches it all the
// same.
func Example() {
	dir, err := os.MkdirTemp("", "sbxrun-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	host, err := runtime.Open(runtime.Options{StateDir: dir}) // once in a process
	if err != nil {
		fmt.Println("this host cannot enforce it:", err)
		return
	}
	defer host.Close()

	type args struct {
		City string `json:"city"`
	}
	weather, err := gofunc.New("get-weather", "Tells the weather of a city.",
		func(_ context.Context, a args) (string, error) { return "sunny in " + a.City, nil })
	if err != nil {
		panic(err)
	}
	tools, err := bridge.NewSet([]bridge.Tool{weather})
	if err != nil {
		panic(err)
	}

	policy := runtime.NewPolicy("/usr/bin/python3", "-c", `
from sbx_tools import get_weather
print(get_weather(city="Rome"))
import socket
try: socket.create_connection(("1.1.1.1", 443))
except OSError as e: print(e.strerror)`)
	policy.Bridge.Tools = tools
	result, err := host.Run(context.Background(), policy, runtime.RunOptions{Stdout: os.Stdout, Stderr: os.Stderr})
	if err != nil {
		panic(err)
	}
	fmt.Println(result.Reason, result.ExitStatus(), result.ToolCalls.ByTool, result.NetworkDenials)
	// Output:
	// sunny in Rome
	// Network is unreachable
	// exited 0 map[get-weather:1] 1
}
