//go:build !race

package bridge

import "time"

// raceSlack is what a loaded machine may add to a measured time.
const raceSlack = 50 * time.Millisecond
