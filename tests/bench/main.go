// Command bench measures sbxrun beside its peers in one interleaved run and
// compares ratios, which hold on a noisy machine where absolute times do not.
//
//	go run ./tests/bench [-n ROUNDS] [-sbxrun PATH]
//
// Every round runs each subject once, in turn. Needs root, bwrap and crun.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sbxrun/sbxrun/runtime"
)

// subject is one thing to time; run starts a sandbox with /bin/true and waits
// for its end.
type subject struct {
	name string
	run  func() error
	wall []time.Duration
}

func (s *subject) median() time.Duration {
	d := slices.Clone(s.wall)
	slices.Sort(d)
	return d[len(d)/2]
}

// claim is a ratio that must hold.
type claim struct {
	what  string
	ratio float64
	most  float64
}

func main() {
	rounds := flag.Int("n", 200, "rounds")
	command := flag.String("sbxrun", "bin/sbxrun", "the command to measure")
	peer := flag.String("peer", "", "internal: serve runs of crun in a mount namespace")
	mounts := flag.Int("mounts", 0, "internal: measure with 1,000 mounts, this many rounds")
	flag.Parse()
	if *mounts > 0 {
		if err := serveMounts(*mounts); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if *peer != "" {
		servePeer(*peer)
		return
	}
	if err := bench(*rounds, *command); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(rounds int, command string) error {
	command, err := filepath.Abs(command)
	if err != nil {
		return err
	}
	host, err := runtime.Open(runtime.Options{Warm: 1})
	if err != nil {
		return err
	}
	defer host.Close()
	cold, err := runtime.Open(runtime.Options{})
	if err != nil {
		return err
	}
	defer cold.Close()
	crun, err := startPeer()
	if err != nil {
		return err
	}
	defer crun.close()
	embedded := &subject{name: "embedded (Warm: 1)", run: func() error { return runEmbedded(host) }}
	unprepared := &subject{name: "embedded (Warm: 0)", run: func() error { return runEmbedded(cold) }}
	cli := &subject{name: "sbxrun do", run: func() error { return runCommand(command, "do", "--", "/bin/true") }}
	bwrap := &subject{name: "bwrap --unshare-all", run: func() error { return runCommand("bwrap", bwrapArgs()...) }}
	peer := &subject{name: "crun run (user namespace)", run: crun.run}
	if err := measure(rounds, embedded, bwrap, unprepared, cli, peer); err != nil {
		return err
	}
	fmt.Printf("start to exit of /bin/true, median of %d interleaved rounds\n", rounds)
	for _, s := range []*subject{embedded, unprepared, cli, bwrap, peer} {
		fmt.Printf("  %-28s %8.2f ms\n", s.name, ms(s.median()))
	}
	claims := []claim{
		{"embedded / bwrap", ratio(embedded, bwrap), 0.5},
		{"embedded / crun", ratio(embedded, peer), 0.2},
		{"command / bwrap", ratio(cli, bwrap), 1.0},
		{"command / crun", ratio(cli, peer), 0.5},
	}
	for _, more := range []func(int, *runtime.Host) ([]claim, error){cpuClaims, hostClaims, bridgeClaims} {
		c, err := more(rounds, host)
		if err != nil {
			return err
		}
		claims = append(claims, c...)
	}
	return judge(claims)
}

func judge(claims []claim) error {
	fmt.Println("\nclaims")
	missed := 0
	for _, c := range claims {
		verdict := "holds"
		if c.ratio > c.most {
			verdict, missed = "MISSED", missed+1
		}
		fmt.Printf("  %-46s %6.2f  (at most %5.2f)  %s\n", c.what, c.ratio, c.most, verdict)
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d claims missed; on a loaded machine run it again", missed, len(claims))
	}
	return nil
}

func measure(rounds int, subjects ...*subject) error {
	const warmUp = 5
	for i := range rounds + warmUp {
		for _, s := range subjects {
			t := time.Now()
			if err := s.run(); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if i >= warmUp {
				s.wall = append(s.wall, time.Since(t))
			}
		}
	}
	return nil
}

func runEmbedded(h *runtime.Host) error {
	r, err := h.Run(context.Background(), runtime.NewPolicy("/bin/true"), runtime.RunOptions{})
	if err == nil && r.ExitStatus() != 0 {
		err = fmt.Errorf("ended with %d", r.ExitStatus())
	}
	return err
}

func ratio(a, b *subject) float64 { return float64(a.median()) / float64(b.median()) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
