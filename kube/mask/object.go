package mask

import (
	"encoding/json"
	"iter"
	"regexp"
	"slices"
	"strings"
)

// Changed replaces a secret value that differs from its previous one.
const Changed = "(hidden, changed)"

// lastApplied is kubectl's copy of an object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// credential matches the names of secret values, also of older and further ones (token2, SECRET_KEY_BASE). Names of references to
// secrets, such as secretName and tokenFile, end in another word. generic matches words that are often the value of a field.
var (
	credential = regexp.MustCompile(`((?i:pass(words?|wd|phrase)?|pwd|secret|tokens?|credentials?|erlang[-_.]?cookie|(slack|discord|teams)[-_.]?webhook[-_.]?url|` +
		`(pass(word|wd)?|pwd)[-_.]?hash(es)?|` +
		`(api|access|account|auth|secret|private|shared|ssh|storage|encryption|master|signing|fernet|jwt|hmac|license|app)[-_.]?keys?)|` +
		`(^|[-_.])(?i:pw|salt)|[a-z](Pw|Salt))(?i:[-_.]?(base|old|new|previous|v?\d+))?$|(?i:auth)$`)
	generic = regexp.MustCompile(`^(?i:(pass(word|wd|phrase)?|pwd|secret|token|(api|access|account|secret|private|encryption)[-_.]?key|credentials?|auth))$`)
)

// isCredential reports whether name is the name of a secret value.
func isCredential(name string) bool {
	return suspicious(name) && credential.MatchString(name) && !notSecret.MatchString(name)
}

// notSecret matches the names of references to secrets, and of numbers of tokens.
var notSecret = regexp.MustCompile(`(?i)^(existing|(max|min|num)([-_.]?\w+)?[-_.]?tokens$)`)

// publicFields are the fields of a Secret without secret values.
var publicFields = []string{"apiVersion", "kind", "metadata", "type"}

func isSecret(object map[string]any) bool {
	version, _ := object["apiVersion"].(string)
	return object["kind"] == "Secret" && (version == "v1" || version == "")
}

// listItems returns the items of a list. One without a kind, as in a SecretList, gets the kind of the list.
func listItems(object map[string]any) iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		items, _ := object["items"].([]any)
		kind, _ := object["kind"].(string)
		for _, i := range items {
			item, _ := i.(map[string]any)
			if of, isList := strings.CutSuffix(kind, "List"); isList && of != "" && item != nil && item["kind"] == nil {
				item["kind"], item["apiVersion"] = of, object["apiVersion"]
			}
			if item != nil && !yield(item) {
				return
			}
		}
	}
}

// Object hides the secret values of an object, which it modifies: all values of a Secret, and in
// other kinds those of fields, variables and arguments that are named like credentials, also inside texts. If before
// is not nil, Object also hides its values, and marks values of object that differ from it as Changed.
func Object(object, before map[string]any) {
	secret := isSecret(object) || isSecret(before)
	hideObject(object, before, secret)
	hideObject(before, nil, secret)
}

func hideObject(object, before map[string]any, secret bool) {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		if annotations, ok := metadata["annotations"].(map[string]any); ok && annotations[lastApplied] != nil {
			annotations[lastApplied] = Hidden
		}
	}
	if !secret {
		for item := range listItems(object) {
			hideObject(item, nil, isSecret(item))
		}
		hideCredentials(object, before, scope{})
		return
	}
	for field, value := range object {
		if _, isBool := value.(bool); slices.Contains(publicFields, field) || isBool && field == "immutable" {
			continue
		}
		object[field] = hideScalars(value, field, before)
	}
}

// hideScalars returns a value with all scalars and lists hidden. before contains the previous value
// of key.
func hideScalars(value any, key string, before map[string]any) any {
	old, existed := before[key]
	switch v := value.(type) {
	case map[string]any:
		b, _ := old.(map[string]any)
		for k := range v {
			v[k] = hideScalars(v[k], k, b)
		}
		return v
	case nil:
		return nil
	}
	if existed && !sameScalar(old, value) {
		return Changed
	}
	return Hidden
}

// sameScalar compares scalars. Lists and maps count as different.
func sameScalar(a, b any) bool { return !isComposite(a) && !isComposite(b) && a == b }

func isComposite(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return true
	}
	return false
}

// hideCredentials hides values that are named like credentials, also in {name: DB_PASSWORD, value: …}.
// old is the previous value. It hides what credentials returns.
func hideCredentials(value, old any, in scope) {
	switch v := value.(type) {
	case map[string]any:
		b, _ := old.(map[string]any)
		secret := map[string]bool{} // before the name of a pair is hidden
		for k := range v {
			secret[k] = in.hides(v, k)
		}
		defer hideCommand(listIn(v, "args"), commandSecrets(containerCommand(v)), hiddenIn(listIn(v, "args"), listIn(b, "args")))
		for k, e := range v {
			text, isText := e.(string)
			switch credentials := headerIn(v, k); {
			case secret[k]:
				v[k] = hideScalars(e, k, b)
			case credentials != nil:
				hidden := hideScalars(e, k, b).(string)
				for _, credential := range credentials {
					text = strings.ReplaceAll(text, credential, hidden)
				}
				v[k] = text
			case isText:
				v[k] = hideEmbedded(text, b[k])
			default:
				hideCredentials(e, b[k], in.field(v, k))
			}
		}
	case []any:
		b, _ := old.([]any)
		hideInList(v, b, in)
	}
}

// hideEmbedded hides the secrets inside a text, such as a file in a ConfigMap. old is the previous value.
func hideEmbedded(text string, old any) string {
	hidden, secrets := hideIn(text)
	before, ok := old.(string)
	if len(secrets) == 0 || !ok || before == text {
		return hidden
	}
	hiddenBefore, secretsBefore := hideIn(before)
	marked := markChanged(strings.Split(text, "\n"), strings.Split(hidden, "\n"), strings.Split(before, "\n"), strings.Split(hiddenBefore, "\n"))
	if marked == hidden && strings.Count(hidden, Hidden) == strings.Count(hiddenBefore, Hidden) && !slices.Equal(secrets, secretsBefore) {
		return strings.ReplaceAll(hidden, Hidden, Changed) // a secret of several lines, or in a line that changes otherwise, too
	}
	return marked
}

// hideIn hides the secrets inside a text and returns them, sorted.
func hideIn(text string) (hidden string, secrets []string) {
	if secrets = embeddedSecrets(text); len(secrets) == 0 {
		return text, nil
	}
	var m Mask
	m.add(secrets)
	slices.Sort(secrets)
	return m.Text(text), slices.Compact(secrets)
}

// markChanged returns hidden lines, of which each says Changed that differs from its previous one only by its secrets.
func markChanged(lines, hidden, before, hiddenBefore []string) string {
	for i := range hidden {
		if len(lines) == len(hidden) && strings.Contains(hidden[i], Hidden) && slices.Contains(hiddenBefore, hidden[i]) && !slices.Contains(before, lines[i]) {
			hidden[i] = strings.ReplaceAll(hidden[i], Hidden, Changed)
		}
	}
	return strings.Join(hidden, "\n")
}

// hideInList hides values in the elements of a list, arguments such as --password=x, and the argument
// after --password. It matches elements with those of old by name or, without a name, by index. If any
// element differs from old, all secret arguments are marked Changed.
func hideInList(list, old []any, in scope) {
	named := func(e any) string {
		m, _ := e.(map[string]any)
		name, _ := m["name"].(string)
		return name
	}
	changedIn := Hidden
	if old != nil {
		changedIn = Changed
	}
	for i, e := range list {
		var previous any
		for j, o := range old {
			if name := named(e); name != "" && name == named(o) || name == "" && i == j {
				previous = o
			}
		}
		text, isText := e.(string)
		switch {
		case in.hidesElement(e) && slices.ContainsFunc(old, func(o any) bool { return sameScalar(o, e) }):
			list[i] = Hidden
		case in.hidesElement(e):
			list[i] = changedIn
		case isText:
			list[i] = hideEmbedded(text, previous)
		default:
			hideCredentials(e, previous, in)
		}
	}
	text := hiddenIn(list, old)
	for i, a := range secretArguments(list) {
		list[i] = a.prefix + text
	}
	hideCommand(list, commandSecrets(commandOf(list)), text)
}

// hiddenIn returns what replaces the secrets of a list. old is the previous list.
func hiddenIn(list, old []any) string {
	if !slices.EqualFunc(list, old, sameScalar) && old != nil {
		return Changed
	}
	return Hidden
}

// hideCommand replaces the secrets of a command line in a list of its arguments.
func hideCommand(list []any, secrets []string, with string) {
	var m Mask
	m.add(secrets)
	for i, e := range list {
		if s, isText := e.(string); isText && len(m.values) > 0 {
			list[i] = strings.ReplaceAll(m.Text(s), Hidden, with)
		}
	}
}

// argument matches a flag or a variable with its value.
var argument = regexp.MustCompile(`^(-{0,2}[A-Za-z][A-Za-z0-9_.-]*)=(.+)$`)

// secretArgument is an argument with a secret value. prefix is the text before the value.
type secretArgument struct{ prefix, value string }

// secretArguments returns, by index, the arguments with a secret: --password=x, and x after --password.
func secretArguments(list []any) map[int]secretArgument {
	found := map[int]secretArgument{}
	follows := false // the element follows a flag such as --password
	for i, e := range list {
		s, isText := e.(string)
		switch m := argument.FindStringSubmatch(s); {
		case isText && follows && !strings.HasPrefix(s, "-"):
			found[i] = secretArgument{"", s}
			follows = false
		case m != nil && holdsCredential(m[1], m[2]):
			found[i] = secretArgument{m[1] + "=", m[2]}
		case m != nil && !namesFile(m[1]) && secretArguments([]any{m[2]})[0].value != "": // --from-literal=password=x
			inner := secretArguments([]any{m[2]})[0]
			found[i] = secretArgument{m[1] + "=" + inner.prefix, inner.value}
		default:
			follows = strings.HasPrefix(s, "-") && isCredential(s)
		}
	}
	return found
}

// credentials returns the values that are named like credentials, also in files, and the passwords of URLs.
func credentials(v any) []string { return credentialsIn(v, scope{}) }

func credentialsIn(v any, in scope) (out []string) {
	switch v := v.(type) {
	case string:
		return embeddedSecrets(v)
	case map[string]any:
		out = append(out, commandSecrets(containerCommand(v))...)
		for k, e := range v {
			found := headerIn(v, k)
			if text, ok := scalar(e); ok && in.hides(v, k) {
				found = []string{text}
			}
			if found != nil {
				out = append(out, found...)
				continue
			}
			out = append(out, credentialsIn(e, in.field(v, k))...)
		}
	case []any:
		for _, e := range v {
			if text, ok := scalar(e); ok && in.hidesElement(e) {
				out = append(out, text)
				continue
			}
			out = append(out, credentialsIn(e, in)...)
		}
		for _, a := range secretArguments(v) {
			out = append(out, a.value)
		}
		out = append(out, commandSecrets(commandOf(v))...)
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
