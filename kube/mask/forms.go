package mask

import (
	"regexp"
	"strings"
	"unicode"

	"lockstep/kube/documents"
)

// isShortSecret reports whether a value of fewer than minLength characters looks like a secret: it mixes letters and digits,
// and is no quantity, version, or numbered word, such as 512Mi, v1.2 and web-1.
func isShortSecret(v string) bool {
	return len(v) >= minShort && strings.ContainsFunc(v, unicode.IsLetter) && strings.ContainsFunc(v, unicode.IsDigit) && !numbered.MatchString(v)
}

var numbered = regexp.MustCompile(`^([\d.]+[a-zA-Z]{0,2}|(\d+(\.\d+)?(ns|us|ms|s|m|h|d))+|[a-zA-Z]+[-_.]?\d{1,2}|v[\d.]+)$`)

// cut marks where a long text was shortened.
const cut = "…"

// hideCutValues hides the pieces of values on both sides of each cut, and at the end of the text,
// which may have been cut without a mark.
func (c *compiled) hideCutValues(s string) string {
	parts := strings.Split(s, cut)
	for i := range parts {
		if c.names[strings.TrimSpace(parts[i])] {
			continue
		}
		for _, v := range c.hidden {
			if i > 0 && len(parts[i]) >= minLength && strings.Contains(v, parts[i]) {
				parts[i] = Hidden
			}
			if i > 0 {
				parts[i] = hideEnd(parts[i], v)
			}
			parts[i] = hideStart(parts[i], v)
		}
	}
	return strings.Join(parts, cut)
}

// hideStart hides the start of v at the end of s.
func hideStart(s, v string) string {
	for at := max(0, len(s)-len(v)); at+minLength <= len(s); at++ {
		next := strings.Index(s[at:], v[:minLength])
		if next < 0 {
			break
		}
		if at += next; strings.HasPrefix(v, s[at:]) {
			return s[:at] + Hidden
		}
	}
	return s
}

// hideEnd hides the end of v at the start of s.
func hideEnd(s, v string) string {
	last := v[len(v)-minLength:]
	for end := min(len(s), len(v)); end >= minLength; end-- {
		at := strings.LastIndex(s[:end], last)
		if at < 0 {
			break
		}
		if end = at + minLength; strings.HasSuffix(v, s[:end]) {
			return Hidden + s[end:]
		}
	}
	return s
}

// Ellipsis replaces a value in a command line; the user has to fill it in.
const Ellipsis = "…"

// keyIndex matches the indices at the end of a key.
var keyIndex = regexp.MustCompile(`(\[\d*\])+$`)

// Argument returns the value of a flag for display. Ellipsis replaces secrets: values that the mask
// hides, and in key1=val1,key2=val2 those that are named like credentials. What follows a secret may be its rest, with a comma
// that is not escaped. It also replaces values with control characters, which cannot be typed.
func (m *Mask) Argument(flag, value string) string {
	if isCredential(flag) || strings.ContainsFunc(value, unicode.IsControl) {
		return Ellipsis
	}
	var parts []string
	follows := false
	for _, part := range documents.Assignments(flag, value) {
		key, v, assigns := strings.Cut(part, "=")
		switch {
		case follows && flag != "set-json":
			part = Ellipsis
		case assigns && !strings.HasPrefix(m.Text(part), key+"="), !assigns && m.isSecretValue("", part): // a secret with an equals sign
			part, follows = Ellipsis, true
		case assigns && m.isSecretValue(key, v):
			part, follows = key+"="+Ellipsis, true
		}
		parts = append(parts, part)
	}
	shown := strings.Join(parts, ",")
	if m.Text(shown) != shown { // a secret with a comma
		return Ellipsis
	}
	return shown
}

// Path is like Argument for a file path, or key=path.
func (m *Mask) Path(value string) string {
	if m.Text(value) != value || strings.ContainsFunc(value, unicode.IsControl) {
		return Ellipsis
	}
	return value
}

// isSecretValue reports whether a value is secret because of its key or its text.
func (m *Mask) isSecretValue(key, value string) bool {
	switch value {
	case "", "true", "false", "null":
		return false
	}
	if isSecretPath(key, value) || holdsCredential(keyIndex.ReplaceAllString(key, ""), value) || m.Text(value) != value || len(embeddedSecrets(value)) > 0 {
		return true
	}
	for part := range strings.SplitSeq(value, ",") { // of a list
		if key, v, ok := strings.Cut(part, "="); ok && v != "" && isCredential(keyIndex.ReplaceAllString(key, "")) {
			return true
		}
	}
	return false
}
