package mask

import (
	"html"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"lockstep/engine/text"
)

// A program may escape any character of a value that it prints, in either case of hexadecimal digits: JSON encoders for HTML
// write \u003d for an equals sign, others \u00E9 or %2D for what needs no escape. So a text is also searched as it is without
// escapes, up to maxEscapes of them in one another, and as it is shown: a control sequence inside a value is removed there.
const maxEscapes = 3

// unescapedText is a text without escapes. The byte i of it is from[i]:to[i] in the source.
type unescapedText struct {
	text     string
	from, to []int
}

// source returns the part of the source that became a part of the text.
func (u unescapedText) source(of span) span { return span{u.from[of.start], u.to[of.end-1]} }

// unescaped returns the texts that a text is without its escapes, by all rules for escapes in all orders.
func unescaped(s string) (all []unescapedText) {
	known, last := map[string]bool{s: true}, []*unescapedText{nil}
	for range maxEscapes {
		var next []*unescapedText
		for _, was := range last {
			text := s
			if was != nil {
				text = was.text
			}
			for _, rule := range rules {
				u := rule(text)
				if u == nil || known[u.text] {
					continue
				}
				known[u.text] = true
				if was != nil {
					for i := range u.from {
						u.from[i], u.to[i] = was.from[u.from[i]], was.to[u.to[i]-1]
					}
				}
				next, all = append(next, u), append(all, *u)
			}
		}
		last = next
	}
	return all
}

// rules return a text without the escapes of one kind, nil if there is none.
var rules = []func(string) *unescapedText{
	escapedBy('\\', backslash), escapedBy('%', percentEscape), escapedBy('&', entity), seen,
}

// escapedBy returns a rule. decode decodes the escape at the start of a text, which begins with start; n is its length, 0 for none.
func escapedBy(start byte, decode func(s string) (decoded string, n int)) func(string) *unescapedText {
	return func(s string) *unescapedText {
		if strings.IndexByte(s, start) < 0 {
			return nil
		}
		return without(s, func(s string) (string, int) {
			if s[0] != start {
				return "", 0
			}
			return decode(s)
		})
	}
}

// seen is the rule for the control sequences and invisible characters that are removed where a text is shown.
func seen(s string) *unescapedText {
	if text.Block(s) == s && !strings.ContainsAny(s, variations) {
		return nil
	}
	return without(s, func(s string) (string, int) {
		for _, v := range variations {
			if strings.HasPrefix(s, string(v)) {
				return "", len(string(v))
			}
		}
		return "", text.Unseen(s)
	})
}

// variations are the invisible characters that are shown: they choose the style of the one before.
const variations = "\ufe0e\ufe0f"

// without returns a text in which something is decoded, nil if nothing is.
func without(s string, decode func(string) (string, int)) *unescapedText {
	u, found := &unescapedText{from: make([]int, 0, len(s)), to: make([]int, 0, len(s))}, false
	var out strings.Builder
	for i := 0; i < len(s); {
		decoded, n := s[i:i+1], 1
		if text, length := decode(s[i:]); length > 0 {
			decoded, n, found = strings.ReplaceAll(text, mark, ""), length, true
		}
		out.WriteString(decoded)
		for range len(decoded) {
			u.from, u.to = append(u.from, i), append(u.to, i+n)
		}
		i += n
	}
	if u.text = out.String(); !found {
		return nil
	}
	return u
}

// controls are the letters that a backslash makes a control character of.
const controls = "n\nr\rt\tb\bf\fv\va\a"

// backslash decodes an escape of a literal in JSON, YAML, Go, Python, a shell or JavaScript.
func backslash(s string) (string, int) {
	if len(s) < 2 {
		return "", 0
	}
	switch c := s[1]; {
	case c == 'u' && strings.HasPrefix(s[2:], "{"):
		if end := strings.IndexByte(s, '}'); end > 0 {
			if r, ok := hexRune(s[3:end]); ok {
				return string(r), end + 1
			}
		}
	case c == 'u':
		if r, n := utf16Escape(s); n > 0 {
			return string(r), n
		}
	case c == 'U':
		if r, ok := hexRune(s[2:min(len(s), 10)]); ok && len(s) >= 10 {
			return string(r), 10
		}
	case c == 'x':
		if r, ok := hexRune(s[2:min(len(s), 4)]); ok && len(s) >= 4 {
			return string([]byte{byte(r)}), 4
		}
	case c >= '0' && c <= '3' && len(s) >= 4:
		if n, err := strconv.ParseUint(s[1:4], 8, 8); err == nil {
			return string([]byte{byte(n)}), 4
		}
	case strings.IndexByte(controls, c) >= 0 && c >= 'a':
		return controls[strings.IndexByte(controls, c)+1:][:1], 2
	}
	_, n := utf8.DecodeRuneInString(s[1:])
	return s[1 : 1+n], 1 + n
}

// utf16Escape decodes \uXXXX, with the second half of a surrogate pair.
func utf16Escape(s string) (rune, int) {
	if len(s) < 6 {
		return 0, 0
	}
	r, ok := hexRune(s[2:6])
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(r) && len(s) >= 12 && s[6:8] == `\u` {
		if low, ok := hexRune(s[8:12]); ok {
			return utf16.DecodeRune(r, low), 12
		}
	}
	return r, 6
}

func hexRune(digits string) (rune, bool) {
	n, err := strconv.ParseUint(digits, 16, 32)
	return rune(n), err == nil && n <= utf8.MaxRune
}

// percentEscape decodes an escaped byte in a URL.
func percentEscape(s string) (string, int) {
	if len(s) < 3 {
		return "", 0
	}
	n, err := strconv.ParseUint(s[1:3], 16, 8)
	if err != nil {
		return "", 0
	}
	return string([]byte{byte(n)}), 3
}

// maxEntity is the length of the longest entity for a character that needs one.
const maxEntity = 10

// entity decodes a character reference in HTML or XML.
func entity(s string) (string, int) {
	end := strings.IndexAny(s[1:min(len(s), maxEntity)], ";&") + 1
	if end == 0 || s[end] != ';' {
		return "", 0
	}
	if text := html.UnescapeString(s[:end+1]); text != s[:end+1] {
		return text, end + 1
	}
	return "", 0
}
