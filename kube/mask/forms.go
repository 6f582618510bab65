package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

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
