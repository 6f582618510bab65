// Package mask keeps secret values out of what is told.
//
// The API server quotes the values of a Secret when their type is wrong, hooks
// print them in their logs, templates put them into messages. A Mask learns the
// values that a release has in its Secrets, and in fields that are named like
// credentials, and hides them in all text that leaves: it stands at the feed of
// events, and thereby before the screen, lines, JSON, the record of the run and
// its summary; at the errors that commands end with; and at the release's record.
//
// A mask is a net, and no proof: a value that a template has taken apart is not
// recognised. What is known to be the value of a Secret where it is shown as an
// object, in diffs and manifests, is therefore hidden by its place (Object).
package mask

import (
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

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/documents"
)

// Hidden stands for a value that is not shown.
const Hidden = "(hidden)"

const (
	// shortest is how long a value must be to be hidden in text, and shortestWord
	// how long one of lower case letters alone: true, 8080 and example are values
	// of Secrets, too, and parts of every other message.
	shortest     = 6
	shortestWord = 8
	// mostLines is how many lines of a value are known one by one.
	mostLines = 2000
)

// Mask hides values. Its zero value knows none. It may be used by several
// goroutines; nil hides nothing.
type Mask struct {
	mu     sync.Mutex
	values map[string]bool
	public []string
	// replace is made of the values when it is needed, hidden are those that it hides.
	replace *strings.Replacer
	hidden  []string
}

// Public says what is no secret even where a Secret has it as a value: names of
// objects and groups, by which messages are understood.
func (m *Mask) Public(names ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.public, m.replace = append(m.public, names...), nil
}

// Release learns from the manifests of a release, and from its values.
func (m *Mask) Release(rel *rel1.Release) {
	if rel == nil {
		return
	}
	m.Manifest(rel.Manifest)
	for _, h := range rel.Hooks {
		m.Manifest(h.Manifest)
	}
	m.Values(rel.Config)
	if rel.Chart != nil {
		m.Values(rel.Chart.Values)
	}
}

// Values learns from the values of a chart: those that are named like credentials.
func (m *Mask) Values(values map[string]any) { m.learn(credentials(values)) }

// suspects are words of which a document has one, in whatever case, where there is
// something to learn from it; the long s is a small one in another case.
var suspects = []string{"secret", "pass", "pwd", "token", "key", "credential", "auth", "ſ", "@"}

// suspicious reports whether there may be something to learn from a document. A
// regular expression that does not mind the case takes longer than all else that
// is done to the manifest of a thousand ConfigMaps here.
func suspicious(doc string) bool {
	doc = strings.ToLower(doc)
	return slices.ContainsFunc(suspects, func(word string) bool { return strings.Contains(doc, word) })
}

// Manifest learns from the objects of a manifest.
func (m *Mask) Manifest(manifest string) {
	for _, doc := range documents.Split(manifest) {
		var object map[string]any
		if suspicious(doc) && yaml.Unmarshal([]byte(doc), &object) == nil {
			m.Learn(object)
		}
	}
}

// Learn learns from an object: all values of a Secret, and of others what is
// named like a credential.
func (m *Mask) Learn(object map[string]any) {
	if items, ok := object["items"].([]any); ok {
		for _, item := range items {
			if o, ok := item.(map[string]any); ok {
				m.Learn(o)
			}
		}
	}
	if !isSecret(object) {
		m.learn(credentials(object))
		return
	}
	for field, value := range object {
		switch field {
		case "apiVersion", "kind", "metadata", "type":
			continue
		}
		for _, v := range scalars(value, nil) {
			m.learn([]string{v})
			if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(v)); err == nil && field == "data" {
				m.learn([]string{string(decoded)})
			}
		}
	}
}

// Secrets learns values that are secret whatever they are called.
func (m *Mask) Secrets(values ...any) {
	for _, v := range values {
		m.learn(scalars(v, nil))
	}
}

// learn adds values, in all the forms in which they may be told.
func (m *Mask) learn(values []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[string]bool{}
	}
	for _, v := range values {
		m.add(v)
		for _, inner := range within(v) {
			m.add(inner)
		}
		if lines := strings.Split(v, "\n"); len(lines) > 1 && len(lines) <= mostLines {
			for _, l := range lines {
				if !strings.HasPrefix(l, "-----") {
					m.add(l)
				}
			}
		}
	}
	m.replace = nil
}

// add adds a value in its forms. It needs m.mu.
func (m *Mask) add(value string) {
	trimmed := strings.TrimSpace(value)
	if len(trimmed) < shortest || credential.FindString(trimmed) == trimmed {
		return
	}
	if len(trimmed) < shortestWord && !strings.ContainsFunc(trimmed, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return
	}
	for _, v := range slices.Compact([]string{value, trimmed}) {
		for _, form := range forms(v) {
			m.values[form] = true
		}
	}
}

// scalars are all scalars of a value, in text.
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
	case float64: // as it was written
		out = append(out, strconv.FormatFloat(v, 'f', -1, 64))
	default:
		out = append(out, fmt.Sprint(v))
	}
	return out
}

// within are the secrets in a value that is a file or an address: fields and
// variables that are named like credentials, and the password of a URL.
func within(value string) (out []string) {
	var file any
	if strings.ContainsAny(value, "{:") && yaml.Unmarshal([]byte(value), &file) == nil {
		out = credentials(file)
	}
	for line := range strings.Lines(value) {
		if name, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && isCredential(name) {
			out = append(out, strings.Trim(v, `"'`))
		}
	}
	return append(out, ofAddresses(value)...)
}

// address is a URL with a password.
var address = regexp.MustCompile(`(://[^\s/:@"']*:)([^\s/@"']+)@`)

// ofAddresses are the passwords of the URLs in a text, as they are and decoded.
func ofAddresses(text string) (out []string) {
	if !strings.Contains(text, "@") {
		return nil
	}
	for _, m := range address.FindAllStringSubmatch(text, -1) {
		out = append(out, m[2])
		if plain, err := url.PathUnescape(m[2]); err == nil && plain != m[2] {
			out = append(out, plain)
		}
	}
	return out
}

// quoted are parts of answers that quote a value, perhaps in part: of the API server,
// of what reads values, and of Helm where one set of values goes over another.
var quoted = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(got )&value\.valueUnstructured\{Value:.*`), "${1}another type; quote a number or boolean meant as text"},
	{regexp.MustCompile(`(?s)(error found in #\d+ byte of )\.\.\.\|.*`), "${1}it"},
	{regexp.MustCompile(`(?s)(failed parsing --set-json data) .*`), "${1}: it is not JSON"},
	{regexp.MustCompile(`(cannot overwrite table with non table for \S+) \(.*\)`), "${1}"},
	{regexp.MustCompile(`(is a table\. Ignoring non-table value) \(.*\)`), "${1}"},
	{regexp.MustCompile("(cannot (?:decode|unmarshal) !!\\w+) `[^`]*`"), "${1} " + Hidden},
	{regexp.MustCompile(`(unknown anchor) '[^']*'`), "${1} " + Hidden},
	{address, "${1}" + Hidden + "@"},
}

// Text hides the values that are known in a text, and the passwords of URLs.
func (m *Mask) Text(s string) string {
	if m == nil || s == "" {
		return s
	}
	for _, q := range quoted {
		s = q.pattern.ReplaceAllString(s, q.instead)
	}
	replacer, values := m.replacer()
	s = replacer.Replace(s)
	if strings.Contains(s, cut) {
		s = withoutEnds(s, values)
	}
	return s
}

// between is what no name has in it.
const between = "\x00"

// replacer hides the values, which come with it.
func (m *Mask) replacer() (*strings.Replacer, []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.replace != nil {
		return m.replace, m.hidden
	}
	// Thousands of values are looked for in thousands of names.
	public := suffixarray.New([]byte(strings.Join(m.public, between)))
	var values []string
	for v := range m.values {
		if len(public.Lookup([]byte(v), 1)) == 0 || strings.Contains(v, between) {
			values = append(values, v)
		}
	}
	slices.SortFunc(values, func(a, b string) int { // the longest first, and always the same
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var pairs []string
	for _, v := range values {
		pairs = append(pairs, v, Hidden)
	}
	m.replace, m.hidden = strings.NewReplacer(pairs...), values
	return m.replace, m.hidden
}

// Event hides the values in what an event says. Names are left alone: events are
// known by them.
func (m *Mask) Event(e event.Event) event.Event {
	e.Message, e.Cause = m.Text(e.Message), m.Text(e.Cause)
	e.Lines, e.Evidence = m.Lines(e.Lines), m.Lines(e.Evidence)
	e.Phases = m.reasons(e.Phases)
	return e
}

// reasons hides the values in why groups wait.
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
			for gate, why := range g.Why {
				hidden.Why[gate] = m.Text(why)
			}
			phases[i].Groups[n] = &hidden
		}
	}
	return phases
}

// Lines hides the values in lines.
func (m *Mask) Lines(text []string) []string {
	if len(text) == 0 {
		return text
	}
	out := make([]string, len(text))
	for i, l := range text {
		out[i] = m.Text(l)
	}
	return out
}

// Warnings hides the values in warnings.
func (m *Mask) Warnings(warnings []plan.Warning) []plan.Warning {
	out := slices.Clone(warnings)
	for i := range out {
		out[i].Message = m.Text(out[i].Message)
	}
	return out
}

// Groups hides the values in why groups wait.
func (m *Mask) Groups(groups []*plan.Group) []*plan.Group {
	return m.reasons([]event.Phase{{Groups: groups}})[0].Groups
}

// Hider is an error that can make one of itself with all text hidden that hide hides.
type Hider interface {
	error
	Hidden(hide func(string) string) error
}

// Error hides the values in an error, which otherwise stays what it is.
func (m *Mask) Error(err error) error {
	if err == nil {
		return nil
	}
	var h Hider
	if errors.As(err, &h) {
		if hidden := h.Hidden(m.Text); hidden.Error() != h.Error() {
			return &masked{m.Text(err.Error()), hidden}
		}
	}
	if text := m.Text(err.Error()); text != err.Error() {
		return &masked{text, err}
	}
	return err
}

// masked has another text than the error that it is.
type masked struct {
	text string
	err  error
}

func (e *masked) Error() string { return e.text }
func (e *masked) Unwrap() error { return errors.Unwrap(e.err) }
func (e *masked) Is(target error) bool {
	return errors.Is(e.err, target)
}
func (e *masked) As(target any) bool { return errors.As(e.err, target) }
