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
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	release "helm.sh/helm/v4/pkg/release/v1"
	"sigs.k8s.io/yaml"

	"lockstep/kube/documents"
)

// Hidden replaces a secret value.
const Hidden = "(hidden)"

const (
	// minLength is the length of the shortest value that is hidden inside other words, minWordLength
	// that of the shortest value of lower-case letters only, minShort that of the shortest value that is
	// hidden as a word. Secrets also contain values such as true, 8080 and example, which appear everywhere.
	minLength     = 6
	minWordLength = 8
	minShort      = 4
	// maxLines is the maximum number of lines of a value whose lines are also hidden one by one.
	maxLines = 2000
)

// Mask hides values. The zero value hides only passwords in URLs and values that some errors quote;
// a nil Mask hides nothing, whatever is added to it. It may be used by several goroutines.
//
// Rule S14: a run has one Mask. It knows the secret values of all releases of the run, and of all
// their revisions that were read.
type Mask struct {
	// load adds what Deferred was given. It does nothing after the first call, and is nil without Deferred.
	load   func()
	mu     sync.Mutex
	values map[string]bool // in all forms in which they may appear; true if hidden only as a word
	names  map[string]bool
	added  map[[sha256.Size]byte]bool // the texts that were added
	paths  map[string]Paths           // of values that are secret whatever they are called, by release
	// compiled is nil until it is needed, and after each change.
	compiled *compiled
}

// Deferred returns a Mask that calls add before it first hides anything. Finding secrets takes longer than rendering a
// chart, and most charts have no text in which they could be. What add reads must not change until then.
func Deferred(add func(*Mask)) *Mask {
	m := &Mask{}
	m.load = sync.OnceFunc(func() { add(m) })
	return m
}

// isNew reports whether a text of a kind was not yet added, and remembers it. Revisions of a release share most of
// their manifests.
func (m *Mask) isNew(kind, text string) bool {
	if m == nil {
		return false
	}
	sum := sha256.Sum256([]byte(kind + separator + text))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.added[sum] {
		return false
	}
	if m.added == nil {
		m.added = map[[sha256.Size]byte]bool{}
	}
	m.added[sum] = true
	return true
}

// AddRelease adds the secrets in the manifests and values of a release, and its names.
func (m *Mask) AddRelease(rel *release.Release) {
	if rel == nil {
		return
	}
	m.addReleaseNames(rel)
	m.AddManifest(rel.Manifest)
	for _, h := range rel.Hooks {
		m.AddManifest(h.Manifest)
	}
	m.AddValues(rel.Config)
	m.AddSecrets(m.PathsOf(rel.Namespace, rel.Name).in(rel.Config)...)
	if rel.Chart != nil {
		m.AddValues(rel.Chart.Values)
	}
}

// AddValues adds the values of a chart that are named like credentials.
func (m *Mask) AddValues(values map[string]any) { m.add(credentials(values)) }

// AddEnviron adds the variables of an environment that are named like credentials, and the passwords inside others.
func (m *Mask) AddEnviron(environ []string) {
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if name != "PWD" && name != "OLDPWD" && !strings.HasSuffix(name, "ASKPASS") {
			m.add(credentials(map[string]any{name: value}))
		}
	}
}

// suspects are lower-case words. A document with secrets contains at least one of them, in upper or
// lower case. The long s (ſ) is one because credential, which ignores case, matches it as an s.
var suspects = []string{"secret", "pass", "pw", "token", "key", "credential", "auth", "salt", "cookie", "webhook", "ſ", "@"}

// suspicious reports whether a document may contain secrets. A case-insensitive regular
// expression would dominate the cost of large manifests.
func suspicious(doc string) bool {
	doc = strings.ToLower(doc)
	return slices.ContainsFunc(suspects, func(word string) bool { return strings.Contains(doc, word) })
}

// AddManifest adds the secrets in the objects of a manifest.
func (m *Mask) AddManifest(manifest string) {
	if !m.isNew("manifest", manifest) {
		return
	}
	for _, doc := range documents.Split(manifest) {
		var object map[string]any
		if (suspicious(doc) || strings.Contains(doc, "ontainers") || hasCommand(doc)) && m.isNew("document", doc) && yaml.Unmarshal([]byte(doc), &object) == nil {
			m.AddObject(object)
		}
	}
}

// AddObject adds the secrets in an object: all values of a Secret, and in other kinds those
// that are named like credentials.
func (m *Mask) AddObject(object map[string]any) {
	for item := range listItems(object) {
		m.AddObject(item)
	}
	m.AddNames(objectNames(object)...)
	if !isSecret(object) {
		m.add(credentials(object))
		return
	}
	for field, value := range object {
		if slices.Contains(publicFields, field) {
			continue
		}
		for _, v := range scalars(value, nil) {
			m.addFile(v)
			if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(v)); err == nil && field == "data" {
				m.addFile(string(decoded))
			}
		}
	}
}

// addFile adds a value of a Secret, which may be a file in any format.
func (m *Mask) addFile(v string) { m.add(append(secretsInFile(v), v)) }

// AddSecrets adds all scalars in values, whatever they are called.
func (m *Mask) AddSecrets(values ...any) {
	for _, v := range values {
		m.add(scalars(v, nil))
	}
}

// add adds values and the secrets inside them, in all forms in which they may appear.
func (m *Mask) add(values []string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range values {
		m.addWithParts(v, maxNesting)
	}
}

// maxNesting is how often parts of parts are added, such as the password in the base64 text in a file.
const maxNesting = 3

// addWithParts adds a value and the secrets inside it. The caller must hold m.mu.
func (m *Mask) addWithParts(v string, nesting int) {
	m.addOne(v, true)
	if nesting > 0 {
		for _, inner := range append(embeddedSecrets(v), parts(v)...) {
			m.addWithParts(inner, nesting-1)
		}
	}
	if lines := strings.Split(v, "\n"); len(lines) > 1 && len(lines) <= maxLines {
		for _, l := range lines {
			if !structure.MatchString(l) {
				m.addOne(l, len(lines) <= maxRareLines)
			}
		}
	}
}

// structure matches a line of a file that has no value: a key of YAML or JSON, a section, an armour.
var structure = regexp.MustCompile(`^\s*(-----.*|(- )*["']?[\w ./-]+["']?\s*:\s*[|>]?[-+]?[{\[]?|\[+[\w :./-]+\]+|</?\w+/?>)\s*$`)

// addOne adds a value in its forms, with rare ones if rare is set, unless it is too common to hide. The caller must hold m.mu.
func (m *Mask) addOne(value string, rare bool) {
	if strings.Contains(value, mark) {
		return
	}
	trimmed := strings.TrimSpace(value)
	word := strings.TrimFunc(trimmed, punctuation)
	switch {
	case generic.MatchString(trimmed):
		return
	case len(trimmed) < minLength:
		if isShortSecret(trimmed) {
			m.addForms(whole(trimmed, rare), true)
		}
		return
	case word != "" && len(word) < minWordLength && !strings.ContainsFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }):
		return
	}
	for _, v := range slices.Compact([]string{value, trimmed}) {
		m.addForms(forms(v, rare), false)
	}
}

// addForms adds the forms of a value. The caller must hold m.mu.
func (m *Mask) addForms(forms []string, short bool) {
	for _, form := range forms {
		if old, known := m.values[form]; known && (short || !old) {
			continue
		}
		if m.values == nil {
			m.values = map[string]bool{}
		}
		m.values[form], m.compiled = short, nil
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
	case float64: // first without an exponent; templates may print it with one
		out = append(out, slices.Compact([]string{strconv.FormatFloat(v, 'f', -1, 64), fmt.Sprint(v)})...)
	default:
		out = append(out, fmt.Sprint(v))
	}
	return out
}

// asFile parses a value as YAML or JSON. It returns nil unless that is a map or a list.
func asFile(value string) any {
	var file any
	if strings.ContainsAny(value, "{:") && yaml.Unmarshal([]byte(value), &file) == nil && isComposite(file) {
		return file
	}
	return nil
}

// parts returns the parts of a secret value that are secret, too, whatever they are called: the text that it encodes, and the
// values in a file that look like passwords, in a short one also those in lines of user:password or "requirepass password".
func parts(value string) (out []string) {
	value = strings.TrimSpace(value)
	if plain, err := base64.StdEncoding.DecodeString(value); err == nil && isPrintable(plain) {
		out = append(out, string(plain))
	}
	_, password, _ := strings.Cut(value, ":")
	candidates := append(scalars(asFile(value), nil), password)
	if strings.Count(value, "\n") < maxRareLines {
		candidates = append(candidates, strings.FieldsFunc(value, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(fieldEnds, r) })...)
	}
	for _, v := range candidates {
		if v != value && len(v) >= minWordLength && isShortSecret(v) && token.MatchString(v) {
			out = append(out, v)
		}
	}
	return out
}

// fieldEnds are the characters that separate a password from the rest of a line, in the formats of configuration files.
const fieldEnds = `:;=<>"',`

// token matches a value that is no path, address, URL or sentence.
var token = regexp.MustCompile(`^[^\s/:.@]+$`)

// isPrintable reports whether data is a text, and no other bytes.
func isPrintable(data []byte) bool {
	return utf8.Valid(data) && !bytes.ContainsFunc(data, func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) })
}
