package mask

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// scope is what the names above a value say about it. Whatever finds secrets in a value and whatever hides them there asks a scope.
type scope struct {
	// name is the field whose list or map contains the value, "" unless that is named like credentials.
	name string
	// whole is set if each scalar is secret, whatever it is called.
	whole bool
}

var (
	// valueField matches the field with the value of a pair, such as {name: DB_PASSWORD, value: x}, and contentField also one with the
	// secret in a map that is named like it, such as credentials: {data: x}.
	valueField   = regexp.MustCompile(`(?i)^(string[-_]?)?val(ue)?s?$`)
	contentField = regexp.MustCompile(`(?i)^((string[-_]?)?val(ue)?s?|(string)?data|contents?|plain([-_]?text)?|literal|inline|raw)$`)
	// nameField matches the field with the name of a pair.
	nameField = regexp.MustCompile(`(?i)^(name|key|header|param(eter)?|variable|option|property)$`)
	// reference matches a field that refers to an object or a key elsewhere.
	reference = regexp.MustCompile(`(?i)(refs?|from)$`)
	// weak matches names that as often contain settings of credentials, and references to them, as the credentials.
	weak = regexp.MustCompile(`(?i)(auth|credentials?|secrets?)$`)
	// plural matches names of several credentials, each below its name.
	plural = regexp.MustCompile(`(?i)(words|tokens|keys|credentials|secrets)$`)
	// public matches names beside credentials that are none.
	public = regexp.MustCompile(`(?i)(name|user|login|email|namespace|refs?|from|file|path|dir|mount|ur[il]|host|type|kind|ids?|^key|mode|method|version|provider|region|issuer|algorithm)$`)
	// schemaType matches the type of a schema, whose fields describe values.
	schemaType = regexp.MustCompile(`^(string|array|object|integer|number|boolean)$`)
)

// field returns the scope of the value of a field. m is the map that has it.
func (s scope) field(m map[string]any, name string) scope {
	switch {
	case s != (scope{}) && reference.MatchString(name):
		return scope{}
	case s.whole:
		return s
	case valueField.MatchString(name) && pairOf(m) != "":
		if _, isMap := m[name].(map[string]any); !isMap {
			return scope{name: pairOf(m), whole: true}
		}
	case valueField.MatchString(name) && s.name != "", contentField.MatchString(name) && s.name != "" && !strings.HasSuffix(strings.ToLower(s.name), "auth"):
		return scope{name: s.name, whole: true}
	case isCredential(name) || suspicious(name) && plural.MatchString(name) && weak.MatchString(name):
		return scope{name: name}
	}
	if s.name != "" && plural.MatchString(s.name) { // a credential below its name
		return scope{name: "secret"}
	}
	return scope{}
}

// pairOf returns the name of the credential whose value is in another field of a map, "" if there is none. A selector of labels has
// none.
func pairOf(m map[string]any) (found string) {
	for field, v := range m {
		if name, isText := v.(string); isText && nameField.MatchString(field) && isCredential(name) && m["operator"] == nil {
			found = max(found, name)
		}
	}
	return found
}

// hides reports whether the scalar in a field is secret. s is the scope of the map.
func (s scope) hides(m map[string]any, field string) bool {
	text, ok := scalar(m[field])
	if !ok || text == "" {
		return false
	}
	if s != (scope{}) || valueField.MatchString(field) {
		if of := s.field(m, field); of.whole {
			return isSecretScalar(of.name, m[field])
		}
	}
	if isCredential(field) {
		return isSecretScalar(field, m[field])
	}
	kind, _ := m["type"].(string)
	if s.name == "" || !plural.MatchString(s.name) || public.MatchString(field) || schemaType.MatchString(kind) {
		return false
	}
	_, isText := m[field].(string)
	return isText && (strings.HasSuffix(strings.ToLower(s.name), "words") || isRandomToken(text))
}

// hidesElement reports whether a scalar in a list is secret. s is the scope of the list.
func (s scope) hidesElement(e any) bool {
	text, isText := e.(string)
	switch {
	case s.whole:
		return isSecretScalar(s.name, e)
	case !isText || text == "" || !isCredential(s.name):
		return false
	case weak.MatchString(s.name):
		return isRandomToken(text)
	}
	return isSecretScalar(s.name, e)
}

// isRandomToken reports whether a value that may be a name is a secret.
func isRandomToken(v string) bool {
	return looksRandom(v) && token.MatchString(v) && !variable.MatchString(v)
}

var (
	// counted matches names whose numbers are amounts.
	counted = regexp.MustCompile(`(?i)(tokens|keys|words|credentials|secrets|auth)$`)
	// hashName matches the names of hashes, hashMethod their methods, which such a field may contain as well.
	hashName   = regexp.MustCompile(`(?i)hash(es)?$`)
	hashMethod = regexp.MustCompile(`(?i)^(bcrypt|scrypt|crypt|argon2\w*|pbkdf2[\w-]*|(hmac[-_]?)?s?(sha|md)[-_]?\d[\w/-]*|plain(text)?|none|true|false)$`)
	// publicKey matches a key that everybody may know.
	publicKey = regexp.MustCompile(`^(ssh-|ecdsa-|sk-(ssh|ecdsa)|-----BEGIN ([A-Z]+ )?(PUBLIC|CERTIFICATE))`)
)

// isSecretScalar reports whether the value of a field with the name of a credential is one: not a method of hashing, a public key, or an
// amount.
func isSecretScalar(name string, v any) bool {
	switch v := v.(type) {
	case string:
		return isSecretText(name, v)
	case float64, int64, int, json.Number:
		return !counted.MatchString(name) && len(scalars(v, nil)[0]) >= minShort
	}
	return false
}

func isSecretText(name, v string) bool {
	return (!hashName.MatchString(name) || !hashMethod.MatchString(v)) && !publicKey.MatchString(v)
}

// holdsCredential reports whether a name and its value are a credential.
func holdsCredential(name, value string) bool { return isCredential(name) && isSecretText(name, value) }

// isSecretPath reports whether the value at a path such as db.credentials.value is secret because of the names in it.
func isSecretPath(path, value string) bool {
	var s scope
	names := strings.Split(path, ".")
	for i, name := range names {
		name = keyIndex.ReplaceAllString(name, "")
		m := map[string]any{name: value}
		if i < len(names)-1 {
			s = s.field(m, name)
		} else if s.hides(m, name) || headerIn(m, name) != nil {
			return true
		}
	}
	return false
}

var (
	// scheme matches the value of a header with credentials, after the name of their scheme.
	scheme = regexp.MustCompile(`(?i)^\s*(?:(basic|bearer|token|api-?key|digest|negotiate|splunk|aws4\S*)\s+)?([^\s"'\\,;<>]+)\s*$`)
	// cookieHeader matches the names of headers with cookies, cookie one of these, cookieAttribute what may follow it.
	cookieHeader    = regexp.MustCompile(`(?i)^(set-)?cookie$`)
	cookie          = regexp.MustCompile(`(?:^|;)\s*([^=;\s]+)="?([^;"]*)`)
	cookieAttribute = regexp.MustCompile(`(?i)^(path|domain|expires|max-age|samesite)$`)
)

// isHeader reports whether a name is that of a header with credentials, such as Proxy-Authorization.
func isHeader(name string) bool {
	if cookieHeader.MatchString(name) {
		return true
	}
	const suffix = "authorization"
	at := len(name) - len(suffix)
	return at >= 0 && strings.EqualFold(name[at:], suffix) && (at == 0 || strings.ContainsRune("-_.", rune(name[at-1])))
}

// headerSecrets returns the credentials in the value of a header.
func headerSecrets(name, value string) []string {
	if !isHeader(name) {
		return nil
	}
	if cookieHeader.MatchString(name) {
		return cookieSecrets(value)
	}
	if m := scheme.FindStringSubmatch(value); m != nil && isHeaderSecret(m[1], m[2]) {
		return []string{m[2]}
	}
	return nil
}

// cookieSecrets returns the values of a header's cookies that look random.
func cookieSecrets(header string) (out []string) {
	for _, m := range cookie.FindAllStringSubmatch(header, -1) {
		if !cookieAttribute.MatchString(m[1]) && isHeaderSecret("", m[2]) {
			out = append(out, m[2])
		}
	}
	return out
}

// isHeaderSecret reports whether v, behind a scheme, is a credential and no word of a sentence.
func isHeaderSecret(scheme, v string) bool {
	plain := variable.MatchString(v) || strings.Contains(v, "://")
	return !plain && (looksRandom(v) || scheme != "" && !lowerCase.MatchString(v) && !capitalised.MatchString(v) && len(v) >= minWordLength)
}

// headerIn returns the credentials of a header that is a field of a map, or the value of a pair.
func headerIn(m map[string]any, field string) []string {
	text, _ := m[field].(string)
	if found := headerSecrets(field, text); found != nil || !valueField.MatchString(field) {
		return found
	}
	var names []string
	for f, v := range m {
		if name, isText := v.(string); isText && nameField.MatchString(f) {
			names = append(names, name)
		}
	}
	if i := slices.IndexFunc(names, isHeader); i >= 0 {
		return headerSecrets(names[i], text)
	}
	return nil
}
