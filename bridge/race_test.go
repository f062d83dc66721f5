//go:build race

package bridge

import "time"

// raceSlack is what the race detector may add to a measured time.
const raceSlack = 200 * time.Millisecond
