package direct

import _ "embed"

//go:embed embedded/launcher-amd64
var launcherImage []byte
