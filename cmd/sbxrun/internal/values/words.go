package values

import "strings"

// Words splits a command line into words the way a shell quotes, with nothing
// else of a shell: single quotes keep everything, double quotes keep all but
// the backslash before a double quote or a backslash, a backslash outside
// quotes keeps the next character. Variables, substitutions, redirections and
// patterns are plain text, so that no text in a configuration is ever run by a
// shell that nobody asked for.
func Words(s string) ([]string, error) {
	if err := NoNUL(s); err != nil {
		return nil, err
	}
	var (
		words  []string
		word   strings.Builder
		inWord bool
	)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\t', '\n', '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case '\'', '"':
			inWord = true
			n, err := quoted(&word, s[i+1:], c)
			if err != nil {
				return nil, err
			}
			i += n
		case '\\':
			if i+1 == len(s) {
				return nil, badf("%s ends in a backslash", Quote(s))
			}
			inWord = true
			i++
			word.WriteByte(s[i])
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, Bad("the command is empty")
	}
	if words[0] == "" {
		return nil, Bad("the command's first word is empty")
	}
	return words, nil
}

// quoted appends the quoted text at the start of rest, which follows the
// opening quote, and returns how many bytes it took, the closing quote included.
func quoted(word *strings.Builder, rest string, quote byte) (int, error) {
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == quote:
			return i + 1, nil
		case c == '\\' && quote == '"' && i+1 < len(rest) && (rest[i+1] == '"' || rest[i+1] == '\\'):
			i++
			word.WriteByte(rest[i])
		default:
			word.WriteByte(c)
		}
	}
	return 0, badf("the quote before %s is not closed", Quote(rest))
}

// JoinWords returns the words as one line that Words splits into the same
// words again, and that a POSIX shell reads as the same words too.
func JoinWords(words []string) string {
	var line strings.Builder
	for i, w := range words {
		if i > 0 {
			line.WriteByte(' ')
		}
		if w != "" && strings.Trim(w, plainChars) == "" {
			line.WriteString(w)
			continue
		}
		line.WriteString("'" + strings.ReplaceAll(w, "'", `'\''`) + "'")
	}
	return line.String()
}

// plainChars are the characters that need no quoting in any shell.
const plainChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=+@%"
