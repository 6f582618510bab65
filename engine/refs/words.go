package refs

import "strings"

// Mentions reports whether a name stands, as a word of its own, in a text
// anywhere in a value: "--secret=web-tls" mentions web-tls, and neither web nor
// tls.
func Mentions(value any, name string) bool {
	switch v := value.(type) {
	case string:
		return hasWord(v, name)
	case map[string]any:
		for _, x := range v {
			if Mentions(x, name) {
				return true
			}
		}
	case []any:
		for _, x := range v {
			if Mentions(x, name) {
				return true
			}
		}
	}
	return false
}

func hasWord(text, word string) bool {
	for from := 0; word != ""; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(word)
		if (start == 0 || !inWord(text[start-1])) && (end == len(text) || !inWord(text[end])) {
			return true
		}
		from = start + 1
	}
	return false
}

// inWord reports whether a byte may be a part of an object's name.
func inWord(b byte) bool {
	return b == '-' || b == '.' || b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}
