package stubs

import "strings"

// pyKeywords can be no identifier at all, in any version from 3.8; __debug__ can
// be used, but neither defined nor passed.
const pyKeywords = `__debug__ False None True and as assert async await break class continue def del elif else except
finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`

// pyTaken are the names that a tool must not hide after a star import: the
// builtins and what the module itself offers. Soft keywords are legal names.
const pyTaken = `ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError
BrokenPipeError BufferError BytesWarning ChildProcessError ConnectionAbortedError ConnectionError
ConnectionRefusedError ConnectionResetError DeprecationWarning EOFError Ellipsis EncodingWarning
EnvironmentError Exception ExceptionGroup FileExistsError FileNotFoundError FloatingPointError
FutureWarning GeneratorExit IOError ImportError ImportWarning IndentationError IndexError
InterruptedError IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError
ModuleNotFoundError NameError NotADirectoryError NotImplemented NotImplementedError OSError
OverflowError PendingDeprecationWarning PermissionError ProcessLookupError RecursionError
ReferenceError ResourceWarning RuntimeError RuntimeWarning StopAsyncIteration StopIteration
SyntaxError SyntaxWarning SystemError SystemExit TabError TimeoutError TypeError UnboundLocalError
UnicodeDecodeError UnicodeEncodeError UnicodeError UnicodeTranslateError UnicodeWarning UserWarning
ValueError Warning ZeroDivisionError abs aiter all anext any ascii bin bool breakpoint bytearray
bytes callable chr classmethod compile complex copyright credits delattr dict dir divmod enumerate
eval exec exit filter float format frozenset getattr globals hasattr hash help hex id input int
isinstance issubclass iter len license list locals map max memoryview min next object oct open ord
pow print property quit range repr reversed round set setattr slice sorted staticmethod str sum
super tuple type vars zip
Any Dict List Literal Optional Union TYPE_CHECKING annotations ` + pyExports

// pyExports are the module's own public names.
const pyExports = `ToolError ToolTimeout ToolNotFound InvalidArguments ToolDenied BudgetExceeded ResultTooLarge
BridgeClosed call list_tools describe set_result`

// words makes a set of a list.
func words(lists ...string) map[string]bool {
	set := map[string]bool{}
	for _, list := range lists {
		for w := range strings.FieldsSeq(list) {
			set[w] = true
		}
	}
	return set
}

// pyIdent turns any text into an ASCII identifier. Python would fold other
// letters by its own rules, and two names could become one.
func pyIdent(name, prefix string) string {
	b := []byte(name)
	for i, c := range b {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			b[i] = '_'
		}
	}
	id := string(b)
	if strings.Trim(id, "_") == "" {
		return prefix
	}
	if id[0] >= '0' && id[0] <= '9' {
		return prefix + "_" + id
	}
	return id
}

// names are the names that are taken.
type names struct {
	taken map[string]bool
	next  map[string]int // the first number to try for a name
}

func newNames(lists ...string) *names { return &names{words(lists...), map[string]int{}} }

// free returns the name, made different from the taken ones, and takes it.
func (t *names) free(id string) string {
	name := id
	if t.taken[name] {
		name += "_"
	}
	for n := max(2, t.next[id]); t.taken[name]; n++ {
		name = id + "_" + itoa(n)
		t.next[id] = n + 1
	}
	t.taken[name] = true
	return name
}

// toolNames returns the function name of each tool, in order: who comes first
// keeps the plain name.
func toolNames(raw []string) []string {
	used := newNames(pyKeywords, pyTaken)
	out := make([]string, len(raw))
	for i, name := range raw {
		id := pyIdent(name, "tool")
		if id[0] == '_' { // the module's own private names start so
			id = "tool" + id
		}
		out[i] = used.free(id)
	}
	return out
}

// paramNames returns the parameter name of each argument. An argument that is an
// identifier already keeps its name, whatever the others are called.
func paramNames(raw []string) []string {
	used := newNames(pyKeywords)
	out := make([]string, len(raw))
	for i, name := range raw {
		if id := pyIdent(name, "arg"); id == name && !used.taken[name] && !strings.HasPrefix(name, "_sbx") {
			out[i], used.taken[name] = name, true
		}
	}
	for i, name := range raw {
		if out[i] == "" {
			id := pyIdent(name, "arg")
			if strings.HasPrefix(id, "_sbx") {
				id = "arg" + id
			}
			out[i] = used.free(id)
		}
	}
	return out
}
