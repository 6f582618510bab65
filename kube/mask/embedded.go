package mask

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// embeddedSecrets returns the secrets inside a value that is a file, a URL or a connection string: passwords, and fields
// and variables that are named like credentials.
func embeddedSecrets(value string) (out []string) {
	if !suspicious(value) {
		return nil
	}
	file := asFile(value)
	out = credentials(file)
	for line := range strings.Lines(value) {
		if name, v, ok := strings.Cut(line, "="); ok {
			if isCredential(strings.TrimSpace(name)) {
				out = append(out, withoutQuotes(v))
			}
			out = append(out, connectionPasswords(line)...)
		} else if name, v, ok := strings.Cut(line, ":"); ok && file == nil && isCredential(strings.TrimSpace(name)) && token.MatchString(withoutQuotes(v)) {
			out = append(out, withoutQuotes(v))
		}
	}
	return append(out, passwords(value)...)
}

// element matches an element of XML that contains only text.
var element = regexp.MustCompile(`<([\w:.-]+)(?:\s[^<>]*)?>([^<>]+)</`)

// secretsInLines returns what looks like a secret in a file of a Secret, whatever its format: what follows a word that is named like a
// credential (requirepass X, .netrc), elements of XML, and the last fields of lines of nothing but fields (.pgpass, htpasswd).
func secretsInLines(file string) (out []string) {
	onlyFields := true
	var last []string
	for line := range strings.Lines(file) {
		words := strings.Fields(line)
		for i, word := range words[:max(len(words)-1, 0)] {
			if v := strings.Trim(words[i+1], `"';,`); isCredential(strings.Trim(word, `"':=-`)) && !lowerCase.MatchString(v) && !variable.MatchString(v) {
				out = append(out, v)
			}
		}
		for _, m := range element.FindAllStringSubmatch(line, -1) {
			if isCredential(m[1]) {
				out = append(out, strings.TrimSpace(m[2]))
			}
		}
		for _, v := range connectionPasswords(line) {
			out = append(out, strings.TrimRight(v, "=")) // base64 without its padding
		}
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		at := strings.LastIndexByte(words[0], ':')
		onlyFields = onlyFields && len(words) == 1 && at > 0 && !strings.Contains(line, "://")
		last = append(last, words[0][at+1:])
	}
	if onlyFields {
		out = append(out, last...)
	}
	return out
}

// lowerCase matches a word of a sentence.
var lowerCase = regexp.MustCompile(`^[a-z]*$`)

func withoutQuotes(v string) string { return strings.Trim(strings.TrimSpace(v), "\"'") }

// Fields of a connection string end at a semicolon, and in some formats also at other characters, unless they are quoted.
var (
	quotedField = regexp.MustCompile(`([\w.-]+)\s*=\s*(?:'([^']+)'|"([^"]+)")`)
	separators  = []string{";", ";,&? \t\r\n"}
)

// connectionPasswords returns the fields of a line that are named like credentials, as in Server=db;Password=x or
// host=db password=x.
func connectionPasswords(line string) (out []string) {
	add := func(name, v string) {
		name = strings.Trim(name[max(0, len(name)-maxName):], " \t\"'")
		if isCredential(name) && !strings.HasSuffix(strings.ToLower(name), "auth") && !variable.MatchString(v) {
			out = append(out, v)
		}
	}
	for _, ends := range separators {
		for field := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(ends, r) }) {
			if name, v, ok := strings.Cut(field, "="); ok && len(field) < len(line) {
				add(name, withoutQuotes(v))
			}
		}
	}
	if strings.ContainsAny(line, "\"'") {
		for _, m := range quotedField.FindAllStringSubmatch(line, -1) {
			add(m[1], m[2]+m[3])
		}
	}
	return out
}

// maxName is the maximum length of the name of a field.
const maxName = 64

// variable matches a value in a script or a template that refers to another one.
var variable = regexp.MustCompile(`^(\$[({]|\$[A-Z_]+$|\$\d$|\{\{|<\w)`)

// urlPassword matches the credentials in a URL. A password should have no @ or slash in it, but many have. The number of a
// port with a path is none.
var urlPassword = regexp.MustCompile(`(://[^\s/:@"']*:)([^\s/"']+|\d*[^\s/"'\d][^\s"']*)@`)

// strictPassword matches the credentials in a URL of which the host may have another one, as in a list of URLs.
var strictPassword = regexp.MustCompile(`(://[^\s/:@"']*:)([^\s/@"']+)@`)

// dsnPassword matches the credentials in the address of a database as Go's driver for MySQL reads it.
var dsnPassword = regexp.MustCompile(`[\w.-]+:([^\s"']+)@(?:tcp|unix)\(`)

// passwords returns the passwords of the URLs in a text, as written and decoded.
func passwords(text string) (out []string) {
	if !strings.Contains(text, "@") {
		return nil
	}
	found := slices.Concat(urlPassword.FindAllStringSubmatch(text, -1), strictPassword.FindAllStringSubmatch(text, -1))
	for _, m := range found {
		out = append(out, m[2])
		if plain, err := url.PathUnescape(m[2]); err == nil && plain != m[2] {
			out = append(out, plain)
		}
	}
	for _, m := range dsnPassword.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}
