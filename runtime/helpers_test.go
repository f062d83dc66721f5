package runtime

import (
	"fmt"
	"os"
)

// runHelper is the test binary as somebody else; it returns the exit code.
func runHelper(mode string) int {
	fmt.Fprintf(os.Stderr, "unknown helper %q\n", mode)
	return 2
}
