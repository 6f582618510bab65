// Package mask hides secret values in all output.
//
// The API server quotes values of Secrets in errors, hooks log them, and templates put them into
// messages. A Mask knows the values of a release's Secrets, and of fields that are named like
// credentials. It hides them in text: in events (so also on the screen, in logs, JSON and records),
// in errors, and in the descriptions of release records.
//
// This is best effort: a Mask does not recognise a value that a template has split. Where objects
// are shown (diffs, manifests), Object therefore hides values by their fields.
package mask

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"index/suffixarray"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	release "helm.sh/helm/v4/pkg/release/v1"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/documents"
)

// Hidden replaces a secret value.
const Hidden = "(hidden)"

const (
	// minLength is the length of the shortest value that is hidden in text, minWordLength
	// that of the shortest value of lower-case letters only. Secrets also contain values
	// such as true, 8080 and example, which appear everywhere.
	minLength     = 6
	minWordLength = 8
	// maxLines is the maximum number of lines of a value whose lines are also hidden one by one.
	maxLines = 2000
)

// Mask hides values. The zero value hides only passwords in URLs and values that some errors quote;
// a nil Mask hides nothing. It may be used by several goroutines.
type Mask struct {
	mu     sync.Mutex
	values map[string]bool // in all forms in which they may appear
	public []string
	// replace hides the values in hidden. It is nil until they are needed, and after each change.
	replace *strings.Replacer
	hidden  []string
}

// AddPublic adds names that are never hidden, even if a Secret contains them: those of objects
// and groups, without which messages are unreadable.
func (m *Mask) AddPublic(names ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.public, m.replace = append(m.public, names...), nil
}

// AddPlan adds the names of the groups and objects of a plan, as AddPublic does.
func (m *Mask) AddPlan(phases []event.Phase) {
	for g := range event.Groups(phases) {
		m.AddPublic(g.ID)
	}
	for _, o := range event.Objects(phases) {
		m.AddPublic(o.String())
	}
}

// AddRelease adds the secrets in the manifests and values of a release.
func (m *Mask) AddRelease(rel *release.Release) {
	if rel == nil {
		return
	}
	m.AddManifest(rel.Manifest)
	for _, h := range rel.Hooks {
		m.AddManifest(h.Manifest)
	}
	m.AddValues(rel.Config)
	if rel.Chart != nil {
		m.AddValues(rel.Chart.Values)
	}
}

// AddValues adds the values of a chart that are named like credentials.
func (m *Mask) AddValues(values map[string]any) { m.add(credentials(values)) }

// suspects are lower-case words. A document with secrets contains at least one of them, in upper or
// lower case. The long s (ſ) is one because credential, which ignores case, matches it as an s.
var suspects = []string{"secret", "pass", "pwd", "token", "key", "credential", "auth", "ſ", "@"}

// suspicious reports whether a document may contain secrets. A case-insensitive regular
// expression would dominate the cost of large manifests.
func suspicious(doc string) bool {
	doc = strings.ToLower(doc)
	return slices.ContainsFunc(suspects, func(word string) bool { return strings.Contains(doc, word) })
}

// AddManifest adds the secrets in the objects of a manifest.
func (m *Mask) AddManifest(manifest string) {
	for _, doc := range documents.Split(manifest) {
		var object map[string]any
		if suspicious(doc) && yaml.Unmarshal([]byte(doc), &object) == nil {
			m.AddObject(object)
		}
	}
}

// AddObject adds the secrets in an object: all values of a Secret, and in other kinds those
// that are named like credentials.
func (m *Mask) AddObject(object map[string]any) {
	if items, ok := object["items"].([]any); ok {
		for _, item := range items {
			if o, ok := item.(map[string]any); ok {
				m.AddObject(o)
			}
		}
	}
	if !isSecret(object) {
		m.add(credentials(object))
		return
	}
	for field, value := range object {
		if slices.Contains(publicFields, field) {
			continue
		}
		for _, v := range scalars(value, nil) {
			m.add([]string{v})
			if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(v)); err == nil && field == "data" {
				m.add([]string{string(decoded)})
			}
		}
	}
}

// AddSecrets adds all scalars in values, whatever they are called.
func (m *Mask) AddSecrets(values ...any) {
	for _, v := range values {
		m.add(scalars(v, nil))
	}
}

// add adds values and the secrets inside them, in all forms in which they may appear.
func (m *Mask) add(values []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[string]bool{}
	}
	for _, v := range values {
		m.addOne(v)
		for _, inner := range embeddedSecrets(v) {
			m.addOne(inner)
		}
		if lines := strings.Split(v, "\n"); len(lines) > 1 && len(lines) <= maxLines {
			for _, l := range lines {
				if !strings.HasPrefix(l, "-----") {
					m.addOne(l)
				}
			}
		}
	}
	m.replace = nil
}

// addOne adds a value in all its forms, unless it is too common to hide. The caller must hold m.mu.
func (m *Mask) addOne(value string) {
	trimmed := strings.TrimSpace(value)
	if len(trimmed) < minLength || credential.FindString(trimmed) == trimmed {
		return
	}
	if len(trimmed) < minWordLength && !strings.ContainsFunc(trimmed, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return
	}
	for _, v := range slices.Compact([]string{value, trimmed}) {
		for _, form := range forms(v) {
			m.values[form] = true
		}
	}
}

// scalars returns all scalars in a value, as text.
func scalars(v any, out []string) []string {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			out = scalars(e, out)
		}
	case []any:
		for _, e := range v {
			out = scalars(e, out)
		}
	case nil, bool:
	case float64: // not in exponent notation
		out = append(out, strconv.FormatFloat(v, 'f', -1, 64))
	default:
		out = append(out, fmt.Sprint(v))
	}
	return out
}

// embeddedSecrets returns the secrets inside a value that is a file or a URL: passwords, and fields
// and variables that are named like credentials.
func embeddedSecrets(value string) (out []string) {
	var file any
	if strings.ContainsAny(value, "{:") && yaml.Unmarshal([]byte(value), &file) == nil {
		out = credentials(file)
	}
	for line := range strings.Lines(value) {
		if name, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && isCredential(name) {
			out = append(out, strings.Trim(v, `"'`))
		}
	}
	return append(out, passwords(value)...)
}

// urlPassword matches the credentials in a URL.
var urlPassword = regexp.MustCompile(`(://[^\s/:@"']*:)([^\s/@"']+)@`)

// passwords returns the passwords of the URLs in a text, as written and decoded.
func passwords(text string) (out []string) {
	if !strings.Contains(text, "@") {
		return nil
	}
	for _, m := range urlPassword.FindAllStringSubmatch(text, -1) {
		out = append(out, m[2])
		if plain, err := url.PathUnescape(m[2]); err == nil && plain != m[2] {
			out = append(out, plain)
		}
	}
	return out
}

// valueQuotes match error messages of the API server, of parsers and of Helm that quote values or parts
// of them.
var valueQuotes = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`(expected string, got )&value\.valueUnstructured\{Value:.*`), "${1}another type; quote numbers and booleans"},
	{regexp.MustCompile(`(got )&(?:value\.valueUnstructured)?\{(?:Value:)?.*`), "${1}another type"},
	{regexp.MustCompile(`(?s)(error found in #\d+ byte of )\.\.\.\|.*`), "${1}the request"},
	{regexp.MustCompile(`(?s)(failed parsing --set-json data) .*`), "${1}: invalid JSON"},
	{regexp.MustCompile(`(cannot overwrite table with non table for \S+) \(.*\)`), "${1}"},
	{regexp.MustCompile(`(is a table\. Ignoring non-table value) \(.*\)`), "${1}"},
	{regexp.MustCompile("(cannot (?:decode|unmarshal) !!\\w+) `[^`]*`"), "${1} " + Hidden},
	{regexp.MustCompile(`(unknown anchor) '[^']*'`), "${1} " + Hidden},
	{urlPassword, "${1}" + Hidden + "@"},
}

// Text hides the secret values in a text, and passwords in URLs.
func (m *Mask) Text(s string) string {
	if m == nil || s == "" {
		return s
	}
	for _, q := range valueQuotes {
		s = q.pattern.ReplaceAllString(s, q.replacement)
	}
	replacer, values := m.replacer()
	s = replacer.Replace(s)
	if strings.Contains(s, cut) {
		s = hideCutValues(s, values)
	}
	return s
}

// separator does not occur in names.
const separator = "\x00"

// replacer returns a replacer for all values that are not public, and the list of those values.
func (m *Mask) replacer() (*strings.Replacer, []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.replace != nil {
		return m.replace, m.hidden
	}
	// A suffix array, because there may be thousands of values and of names.
	public := suffixarray.New([]byte(strings.Join(m.public, separator)))
	var values []string
	for v := range m.values {
		if len(public.Lookup([]byte(v), 1)) == 0 || strings.Contains(v, separator) {
			values = append(values, v)
		}
	}
	slices.SortFunc(values, func(a, b string) int { // longest first, deterministic
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	var pairs []string
	for _, v := range values {
		pairs = append(pairs, v, Hidden)
	}
	m.replace, m.hidden = strings.NewReplacer(pairs...), values
	return m.replace, m.hidden
}

// Event hides the secret values in the text of an event, but not in names.
func (m *Mask) Event(e event.Event) event.Event {
	e.Message, e.Cause = m.Text(e.Message), m.Text(e.Cause)
	e.Lines, e.Evidence = m.Lines(e.Lines), m.Lines(e.Evidence)
	e.Phases = m.reasons(e.Phases)
	return e
}

// reasons hides the secret values in the reasons why groups wait.
func (m *Mask) reasons(phases []event.Phase) []event.Phase {
	if !slices.ContainsFunc(phases, func(p event.Phase) bool {
		return slices.ContainsFunc(p.Groups, func(g *plan.Group) bool { return len(g.Why) > 0 })
	}) {
		return phases
	}
	phases = slices.Clone(phases)
	for i := range phases {
		phases[i].Groups = slices.Clone(phases[i].Groups)
		for n, g := range phases[i].Groups {
			hidden := *g
			hidden.Why = maps.Clone(g.Why)
			for dependency, reason := range g.Why {
				hidden.Why[dependency] = m.Text(reason)
			}
			phases[i].Groups[n] = &hidden
		}
	}
	return phases
}

// Lines hides the secret values in each line.
func (m *Mask) Lines(text []string) []string {
	out := slices.Clone(text)
	for i, l := range text {
		out[i] = m.Text(l)
	}
	return out
}

// Warnings hides the secret values in warnings.
func (m *Mask) Warnings(warnings []plan.Warning) []plan.Warning {
	out := slices.Clone(warnings)
	for i := range out {
		out[i].Message = m.Text(out[i].Message)
	}
	return out
}

// Groups hides the secret values in the reasons why groups wait.
func (m *Mask) Groups(groups []*plan.Group) []*plan.Group {
	return m.reasons([]event.Phase{{Groups: groups}})[0].Groups
}

// Hider is an error that can return a copy of itself with its texts passed through hide.
type Hider interface {
	error
	Hidden(hide func(string) string) error
}

// Error hides the secret values in the text of an error. errors.Is and errors.As see the original or, if it wraps a
// Hider with secret values, that Hider's masked copy.
func (m *Mask) Error(err error) error {
	if err == nil {
		return nil
	}
	var h Hider
	if errors.As(err, &h) {
		if hidden := h.Hidden(m.Text); hidden.Error() != h.Error() {
			return &maskedError{m.Text(err.Error()), hidden}
		}
	}
	if text := m.Text(err.Error()); text != err.Error() {
		return &maskedError{text, err}
	}
	return err
}

// maskedError is an error with its secret values hidden.
type maskedError struct {
	text string
	err  error
}

func (e *maskedError) Error() string        { return e.text }
func (e *maskedError) Unwrap() error        { return errors.Unwrap(e.err) }
func (e *maskedError) Is(target error) bool { return errors.Is(e.err, target) }
func (e *maskedError) As(target any) bool   { return errors.As(e.err, target) }
