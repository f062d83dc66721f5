// Package lint holds the tree to its own rules: who may touch raw system calls,
// what may run at start-up, and documents that name only what exists. Its tests
// read source text and need no privilege.
package lint
