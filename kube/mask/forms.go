package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"lockstep/engine/text"
)

// forms are all ways in which a value may be told: encoded, escaped for a format or for
// one inside of another, cleaned for a line.
func forms(v string) []string {
	all := []string{
		v, url.QueryEscape(v), url.PathEscape(v), strings.ReplaceAll(v, "'", "''"),
		base64.StdEncoding.EncodeToString([]byte(v)), base64.RawStdEncoding.EncodeToString([]byte(v)),
		base64.URLEncoding.EncodeToString([]byte(v)), base64.StdEncoding.EncodeToString([]byte(v + "\n")),
		strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", []byte(v)), "[]byte{"), "}"),
	}
	all = append(all, inBase64(v)...)
	for _, escape := range escapes {
		once := escape(v)
		all = append(all, once)
		for _, again := range escapes {
			if len(v) < longest {
				all = append(all, again(once))
			}
		}
	}
	for _, form := range all[:len(all):len(all)] { // as one line, without control sequences
		all = append(all, strings.Join(strings.Fields(text.Line(form)), " "))
	}
	return slices.DeleteFunc(all, func(form string) bool { return len(form) < shortest || strings.Contains(form, cut) })
}

// longest is how long a value may be that is known escaped twice.
const longest = 16 << 10

// escapes are the ways in which strings are written in Go, JSON and YAML.
var escapes = []func(string) string{
	func(s string) string { return strings.Trim(strconv.Quote(s), `"`) },
	func(s string) string { text, _ := json.Marshal(s); return string(text[1 : len(text)-1]) }, // a string can be marshalled
	func(s string) string {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		_ = e.Encode(s)
		return string(out.Bytes()[1 : out.Len()-2])
	},
}

// inBase64 is what a value becomes wherever it stands in something longer that is
// encoded: of each of its three places, what does not depend on its neighbours.
func inBase64(v string) (all []string) {
	for before := range 3 {
		padded := strings.Repeat("x", before) + v
		whole := len(padded) * 8 / 6 // digits that depend on nothing that follows
		from := (before*8 + 5) / 6
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			all = append(all, e.EncodeToString([]byte(padded))[from:whole])
		}
	}
	return all
}

// cut stands for what was left out of a text that was too long.
const cut = "…"

// withoutEnds hides what is left of a value where a text was cut. What has told it may
// have cut the text before, so that it may end within a value, too.
func withoutEnds(s string, values []string) string {
	parts := strings.Split(s, cut)
	for i := range parts {
		for _, v := range values {
			if i > 0 && len(parts[i]) >= shortest && strings.Contains(v, parts[i]) {
				parts[i] = Hidden
			}
			if i > 0 {
				parts[i] = withoutEnd(parts[i], v)
			}
			parts[i] = withoutStart(parts[i], v)
		}
	}
	return strings.Join(parts, cut)
}

// withoutStart hides the start of a value at the end of a text.
func withoutStart(s, v string) string {
	for at := max(0, len(s)-len(v)); at+shortest <= len(s); at++ {
		next := strings.Index(s[at:], v[:shortest])
		if next < 0 {
			break
		}
		if at += next; strings.HasPrefix(v, s[at:]) {
			return s[:at] + Hidden
		}
	}
	return s
}

// withoutEnd hides the end of a value at the start of a text.
func withoutEnd(s, v string) string {
	last := v[len(v)-shortest:]
	for end := min(len(s), len(v)); end >= shortest; end-- {
		at := strings.LastIndex(s[:end], last)
		if at < 0 {
			break
		}
		if end = at + shortest; strings.HasSuffix(v, s[:end]) {
			return Hidden + s[end:]
		}
	}
	return s
}

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
