//go:build !amd64 && !arm64

package direct

// launcherImage is empty where there is no launcher: [Start] refuses.
var launcherImage []byte
