package mask

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Changed replaces a secret value that differs from its previous one.
const Changed = "(hidden, changed)"

// lastApplied is kubectl's copy of an object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// credential matches the names of secret values. Names of references to secrets
// (secretName, tokenFile) end in another word.
var credential = regexp.MustCompile(`(?i)(pass(word|wd|phrase)?|pwd|secret|token|api[-_.]?key|access[-_.]?key|secret[-_.]?key|private[-_.]?key|encryption[-_.]?key|credentials?|auth)$`)

// isCredential reports whether a name is that of a secret value.
func isCredential(name string) bool {
	return credential.MatchString(name) && !strings.HasPrefix(strings.ToLower(name), "existing")
}

func isSecret(object map[string]any) bool {
	version, _ := object["apiVersion"].(string)
	return object["kind"] == "Secret" && (version == "v1" || version == "")
}

// Object hides secret values of an object by their place: all values of a Secret, and in
// other kinds those of fields, variables and arguments that are named like credentials.
// It modifies the object. If before is not nil, its values are hidden, too, and those that
// differ are marked as Changed.
func Object(object, before map[string]any) {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		if annotations, ok := metadata["annotations"].(map[string]any); ok && annotations[lastApplied] != nil {
			annotations[lastApplied] = Hidden
		}
	}
	h := hider{all: isSecret(object)}
	if !h.all {
		h.walk(object, orNil(before))
		return
	}
	for field, value := range object {
		switch field {
		case "apiVersion", "kind", "metadata", "type":
			continue
		}
		if _, is := value.(bool); is && field == "immutable" {
			continue
		}
		object[field] = h.hide(value, field, before)
	}
	for field, value := range before {
		if _, ok := object[field]; !ok && (field == "data" || field == "stringData") {
			before[field] = h.hide(value, field, nil)
		}
	}
}

// orNil keeps a nil map from becoming an interface that is not nil.
func orNil(m map[string]any) any {
	if m == nil {
		return nil
	}
	return m
}

// hider hides values in an object and in its previous state.
type hider struct{ all bool }

// hide returns a value with all scalars hidden, and hides those of the same key in before.
func (h hider) hide(value any, key string, before map[string]any) any {
	old, was := before[key]
	switch v := value.(type) {
	case map[string]any:
		b, _ := old.(map[string]any)
		for k := range v {
			v[k] = h.hide(v[k], k, b)
		}
		for k := range b {
			if _, ok := v[k]; !ok {
				b[k] = Hidden
			}
		}
		return v
	case nil:
		return nil
	}
	text := Hidden
	if was && !same(old, value) {
		text = Changed
	}
	if was {
		before[key] = Hidden
	}
	return text
}

// same compares scalars. Lists and maps count as different.
func same(a, b any) bool {
	switch a.(type) {
	case []any, map[string]any:
		return false
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

// walk hides values that are named like credentials. old is the previous value.
func (h hider) walk(value, old any) {
	switch v := value.(type) {
	case map[string]any:
		b, _ := old.(map[string]any)
		h.variable(v, b)
		for k, e := range v {
			if _, text := e.(string); text && isCredential(k) {
				v[k] = h.hide(e, k, b)
				continue
			}
			h.walk(e, b[k])
		}
		for k, e := range b { // removed
			if _, there := v[k]; !there {
				if _, text := e.(string); text && isCredential(k) {
					b[k] = Hidden
				} else {
					h.walk(e, nil)
				}
			}
		}
	case []any:
		b, _ := old.([]any)
		h.list(v, b)
	}
}

// variable hides the value of {name: DB_PASSWORD, value: …}.
func (h hider) variable(v, old map[string]any) {
	name, _ := v["name"].(string)
	if value, ok := v["value"].(string); ok && value != "" && isCredential(name) {
		v["value"] = h.hide(value, "value", old)
	}
}

// list walks the elements of a list, which it matches by name, and hides arguments such as
// --password=x, and the one after --password.
func (h hider) list(list, old []any) {
	named := func(e any) string {
		m, _ := e.(map[string]any)
		name, _ := m["name"].(string)
		return name
	}
	paired := map[int]bool{}
	for i, e := range list {
		var was any
		for j, o := range old {
			if name := named(e); name != "" && name == named(o) || name == "" && i == j {
				was = o
				paired[j] = true
			}
		}
		h.walk(e, was)
	}
	for j, o := range old {
		if !paired[j] {
			h.walk(o, nil)
		}
	}
	hideArguments(list, differs(list, old))
	hideArguments(old, false)
}

func differs(a, b []any) bool {
	if len(a) != len(b) {
		return true
	}
	for i := range a {
		if !same(a[i], b[i]) {
			return true
		}
	}
	return false
}

// argument matches a flag or a variable with its value.
var argument = regexp.MustCompile(`^(-{0,2}[A-Za-z][A-Za-z0-9_.-]*)=(.+)$`)

// hideArguments hides the secret values in a list of arguments.
func hideArguments(list []any, changed bool) {
	text := Hidden
	if changed {
		text = Changed
	}
	for i, a := range secretArguments(list) {
		list[i] = a.name + text
	}
}

// secretArgument is the value of an argument, and the text in front of it.
type secretArgument struct{ name, value string }

// secretArguments returns the values of arguments such as --password=x, and those after
// --password, by index.
func secretArguments(list []any) map[int]secretArgument {
	found, follows := map[int]secretArgument{}, false
	for i, e := range list {
		s, is := e.(string)
		switch m := argument.FindStringSubmatch(s); {
		case is && follows && !strings.HasPrefix(s, "-"):
			found[i] = secretArgument{"", s}
			follows = false
		case m != nil && isCredential(m[1]):
			found[i] = secretArgument{m[1] + "=", m[2]}
		default:
			follows = strings.HasPrefix(s, "-") && isCredential(s)
		}
	}
	return found
}

// credentials returns the values that are named like credentials, and the passwords of URLs.
func credentials(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return passwords(v)
	case map[string]any:
		name, _ := v["name"].(string)
		if value, ok := v["value"].(string); ok && isCredential(name) {
			out = append(out, value)
		}
		for k, e := range v {
			if text, ok := scalar(e); ok && isCredential(k) {
				out = append(out, text)
				continue
			}
			out = append(out, credentials(e)...)
		}
	case []any:
		for _, e := range v {
			out = append(out, credentials(e)...)
		}
		for _, a := range secretArguments(v) {
			out = append(out, a.value)
		}
	}
	return out
}

// scalar returns a string or a number as text.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case float64, int64, int, json.Number:
		return scalars(v, nil)[0], true
	}
	return "", false
}
