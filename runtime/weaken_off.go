//go:build !sbxrun_weaken

package runtime

import (
	"github.com/sbxrun/sbxrun/cgroups"
	"github.com/sbxrun/sbxrun/runtime/plan"
)

// In builds made for tests (tag sbxrun_weaken) these take one control away, so
// that a test can see selftest notice. Here they do nothing.

func weakenPlan(*plan.Plan) {}

func weakenTemplate(*plan.Plan) {}

func weakenLimits(l cgroups.Limits) cgroups.Limits { return l }
