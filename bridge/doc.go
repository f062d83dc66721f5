// Package bridge is the host side of the tool bridge: a sandboxed program calls
// a tool by writing a request file, the host runs the tool and answers with a
// file. The sandbox needs no socket, no network and no inherited descriptor.
//
// A process makes one [Watcher] before its first sandbox and calls
// [Watcher.Serve] for each sandbox with two directory descriptors: the request
// directory, whose content is hostile and which the host never changes, and the
// reply directory, which only the host can write. Tools come from package
// bridge/gofunc (a Go function), [Command] (a host program), [LoadToolsFile] or any [Handler].
//
// Whatever a program does costs it a refusal, never the host more than a
// bounded amount of work: names are matched byte by byte, a file is opened once
// without following or waiting, read once within its limit, and parsed by a strict
// walk; the reply is complete or absent. The package bridge/stubs generates what
// a program imports to call the tools.
package bridge
