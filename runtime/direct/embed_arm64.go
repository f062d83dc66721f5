package direct

import _ "embed"

//go:embed embedded/launcher-arm64
var launcherImage []byte
