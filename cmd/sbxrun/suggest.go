package main

import (
	"strings"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/values"
)

// nearest returns the candidate that name is most likely a misspelling of, ""
// where none is near.
func nearest(name string, candidates []string) string {
	// A suggestion that shares too little with what was typed misleads: a third of
	// the letters may differ, and at most three.
	best, limit := "", min(max(len(name)/3, 1), 3)
	for _, c := range candidates {
		if d := distance(strings.ToLower(name), c, limit); d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}

// distance is the number of single-letter edits between a and b (Levenshtein),
// or more than limit where it exceeds it.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// printable returns the word as it was typed where that is harmless on a
// terminal, quoted otherwise.
func printable(s string) string {
	if len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) || s == "" {
		return quoteValue(s)
	}
	return s
}

func quoteValue(s string) string { return values.Quote(s) }
