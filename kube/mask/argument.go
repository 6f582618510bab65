package mask

import (
	"regexp"
	"strings"
	"unicode"
)

// Ellipsis stands on a command line for a value that the user has to fill in.
const Ellipsis = "…"

// index is the end of a key that is the element of a list.
var index = regexp.MustCompile(`(\[\d*\])+$`)

// Argument is the value of a flag as a command line may show it, with Ellipsis in
// place of secrets: of values that are known, and where the value is key1=val1,key2=val2
// of those that are named like credentials. A shell cannot show control characters.
func (m *Mask) Argument(flag, value string) string {
	if isCredential(flag) || strings.ContainsFunc(value, unicode.IsControl) {
		return Ellipsis
	}
	parts := assignments(value)
	for i, part := range parts {
		key, v, assigns := strings.Cut(part, "=")
		switch {
		case assigns && m.secret(key, v):
			parts[i] = key + "=" + Ellipsis
		case !assigns && m.secret("", part):
			parts[i] = Ellipsis
		}
	}
	shown := strings.Join(parts, ",")
	if m.Text(shown) != shown { // a secret with a comma
		return Ellipsis
	}
	return shown
}

// Path is the path of a file as a command line may show it, or key=path.
func (m *Mask) Path(value string) string {
	if m.Text(value) != value || strings.ContainsFunc(value, unicode.IsControl) {
		return Ellipsis
	}
	return value
}

// secret reports whether a value is one, by its key or by itself.
func (m *Mask) secret(key, value string) bool {
	switch value {
	case "", "true", "false", "null":
		return false
	}
	if isCredential(index.ReplaceAllString(key, "")) || m.Text(value) != value || len(within(value)) > 0 {
		return true
	}
	for part := range strings.SplitSeq(value, ",") { // of a list, or of a value with a bracket in it
		if key, v, ok := strings.Cut(part, "="); ok && v != "" && isCredential(index.ReplaceAllString(key, "")) {
			return true
		}
	}
	return false
}

// assignments divides key1=val1,key2=val2 at its commas, but for those that are
// escaped, quoted, or in brackets.
func assignments(value string) (parts []string) {
	depth, quoted, begin := 0, false, 0
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ',' && depth <= 0:
			parts, begin = append(parts, value[begin:i]), i+1
		}
	}
	return append(parts, value[begin:])
}
