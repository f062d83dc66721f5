package bridge_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/bridge/gofunc"
)

// A host offers a Go function; here the program's side is played by hand.
func Example() {
	type args struct {
		City string `json:"city" jsonschema:"the city's name"`
	}
	weather, err := gofunc.New("get-weather", "Tells the weather of a city.",
		func(_ context.Context, a args) (string, error) {
			if a.City == "" {
				return "", &bridge.ToolError{Type: "CityError", Message: "no such city"}
			}
			return "sunny in " + a.City, nil
		})
	if err != nil {
		panic(err)
	}
	tools, err := bridge.NewSet([]bridge.Tool{weather})
	if err != nil {
		panic(err)
	}
	watcher, err := bridge.NewWatcher() // once in a process, before the first sandbox
	if err != nil {
		panic(err)
	}
	defer func() { _ = watcher.Close() }()

	// In production the two directories are the sandbox's own mounts.
	dir, err := os.MkdirTemp("", "bridge")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	open := func(name string) *os.File {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			panic(err)
		}
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			panic(err)
		}
		return f
	}
	req, resp := open("req"), open("resp")
	defer func() { _, _ = req.Close(), resp.Close() }()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the run's deadline
	defer cancel()
	server, err := watcher.Serve(ctx, bridge.Config{
		SandboxID: "demo", Req: req, Resp: resp, UID: uint32(os.Getuid()),
		Tools: tools, MaxCalls: bridge.DefaultMaxCalls,
	})
	if err != nil {
		panic(err)
	}

	request := filepath.Join(dir, "req", "req_1.json")
	if err := os.WriteFile(request+".tmp", []byte(`{"tool":"get-weather","args":{"city":"Rome"}}`), 0o644); err != nil {
		panic(err)
	}
	if err := os.Rename(request+".tmp", request); err != nil {
		panic(err)
	}
	for {
		reply, err := os.ReadFile(filepath.Join(dir, "resp", "resp_1.json"))
		if err == nil {
			fmt.Println(string(reply))
			break
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Println(server.Close().Dispatched)
	// Output:
	// {"v":1,"id":"1","result":"sunny in Rome"}
	// 1
}
