package planfile

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"

	"golang.org/x/crypto/scrypt"

	"lockstep/engine/inspect"
)

// The cost of Slow: one digest takes about 0.1 s and 32 MB.
const (
	scryptN = 1 << 15
	scryptR = 8
	scryptP = 1
)

// Slow returns a digest of content that may contain secret values: each guess at a short one costs as much as this digest, and
// with a random salt nobody can compute guesses beforehand.
func Slow(salt, content []byte) string {
	key, err := scrypt.Key(content, salt, scryptN, scryptR, scryptP, 18)
	if err != nil {
		panic(err) // only for other costs
	}
	return "scrypt:" + base64.RawURLEncoding.EncodeToString(key)
}

// Planned is what an operation does to an object, with its secret values.
type Planned struct {
	inspect.Change
	Sent Fields // as the operation sends the object; nil if it deletes it
	// Before and After are the fields that it changes in the cluster.
	Before, After Fields
	Template      string // that renders the object
	Again         bool   // see Object.Again
	Images        []string
}

// Fields are the values of an object that have no parts, by path.
type Fields map[string]Field

// Field is the value of a field. Secret is set if it is, or may be, secret.
type Field struct {
	Value  any
	Secret bool
}

// NewObject returns the digests of what an operation does to an object. hide hides the secret values that are known; a field in
// which it hides something is secret. To compare with an approved object, pass it: its fields are secret as they were then, because
// hide may know other values now.
func NewObject(salt []byte, p Planned, hide func(string) string, approved *Object) (o Object, err error) {
	o.Change, o.Template, o.Again = p.Change, p.Template, p.Again
	if approved == nil {
		approved = &Object{}
	}
	secretFields := map[string]bool{}
	isSecret := func(path string, digests map[string]string, fields ...Field) bool {
		_, quick := digests[path]
		secret := !quick && (slices.Contains(approved.SecretFields, path) || hide(path) != path || slices.ContainsFunc(fields, func(f Field) bool {
			text, isText := f.Value.(string)
			return f.Secret || isText && hide(text) != text
		}))
		if secret && hide(path) == path {
			secretFields[path] = true
		}
		return secret
	}
	sent, changed := map[string]any{}, map[string]any{} // the secret ones
	o.Sent, o.Changed = map[string]string{}, map[string]string{}
	for path, f := range p.Sent {
		if isSecret(path, approved.Sent, f) {
			sent[path] = f.Value
		} else if o.Sent[path], err = quick(salt, path, f.Value); err != nil {
			return o, err
		}
	}
	for _, path := range Keys(p.Before, p.After) {
		before, after := p.Before[path], p.After[path]
		values := []any{before.Value, after.Value}
		if isSecret(path, approved.Changed, before, after) {
			changed[path] = values
		} else if o.Changed[path], err = quick(salt, path, values); err != nil {
			return o, err
		}
	}
	o.SecretFields = slices.Sorted(maps.Keys(secretFields))
	if o.SecretSent, err = slowUnlessEmpty(salt, sent); err == nil {
		o.SecretChanged, err = slowUnlessEmpty(salt, changed)
	}
	return o, err
}

// quick returns the digest of a value that is not secret.
func quick(salt []byte, path string, value any) (string, error) {
	text, err := json.Marshal([]any{path, value})
	if err != nil {
		return "", err
	}
	h := hmac.New(sha256.New, salt)
	h.Write(text)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16]), nil
}

func slowUnlessEmpty(salt []byte, values map[string]any) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	text, err := json.Marshal(values) // sorted by key
	return Slow(salt, text), err
}
