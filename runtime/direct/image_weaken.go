//go:build sbxrun_weaken

package direct

import "os"

// launcherPath names a launcher that lacks a control of its own; the linker sets
// it in builds made for tests, and no other build has it.
var launcherPath string

func image() ([]byte, error) {
	if launcherPath == "" {
		return launcherImage, nil
	}
	return os.ReadFile(launcherPath)
}
