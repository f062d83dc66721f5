package main

import (
	"os"
	"strings"
	"testing"
)

// TestRun holds the example, which README.md shows, to what it prints.
func TestRun(t *testing.T) {
	var stdout, stderr strings.Builder
	if err := run(&stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	const want = "sunny in Rome\nexited, {\"answer\":42}, 1 tool call\n"
	if stdout.String() != want || stderr.Len() > 0 {
		t.Errorf("printed %q, %q", &stdout, &stderr)
	}
}

// TestREADMEShowsThis compares what is between two functions with the README.
func TestREADMEShowsThis(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "const snippet")
	body, _, ok := strings.Cut(body, "func main()")
	if !ok || !strings.Contains(string(readme), "const snippet "+strings.TrimSpace(body)) {
		t.Error("the library example in README.md is not that of examples/embed/main.go")
	}
}
