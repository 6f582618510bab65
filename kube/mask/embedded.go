package mask

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// embeddedSecrets returns the secrets inside a value that is a file, a script, a URL or a connection string: passwords, and
// what is named like a credential.
func embeddedSecrets(value string) []string {
	inCommands := commandSecrets(value)
	if !suspicious(value) {
		return inCommands
	}
	var keys []string
	if strings.Contains(value, "PRIVATE KEY-----") {
		for _, m := range privateKey.FindAllStringSubmatch(value, -1) {
			keys = append(keys, m[1])
		}
	}
	return slices.Concat(keys, credentials(asFile(value)), secretsInLines(value), passwords(value), inCommands)
}

var (
	// element matches an element of XML that contains only text.
	element = regexp.MustCompile(`<([\w:.-]+)(?:\s[^<>]*)?>([^<>]+)</`)
	// pair matches a name and a value that are attributes, fields, or an attribute and the text of its element.
	pair = regexp.MustCompile(`\b(?:key|name)["']?\s*[:=]\s*["']([\w:.-]+)["'](?:[^<>{}]*?\bvalue["']?\s*[:=]\s*["']([^"']+)["']|[^<>]*>([^<>]+)</)`)
	// property matches a name and a value that are elements, as in Hadoop's configuration.
	property = regexp.MustCompile(`<name>\s*([\w:.-]+)\s*</name>\s*<value>([^<>]+)</value>`)
	// quotedKey matches a field with a quoted value in JSON or a program, whether or not the whole file can be parsed, also with a type, as in
	// token: str = "x".
	quotedKey = regexp.MustCompile(`([\w.-]+)["']?\s*(?::\s*\w+\s*)?(?::=|=>|:|=)\s*(?:"((?:[^"\\]|\\.)+)"|'((?:[^'\\]|\\.)+)')`)
	// escapedKey matches the same in a string.
	escapedKey = regexp.MustCompile(`\\"([\w.-]+)\\"\s*:\s*\\"([^"\\]+)\\"`)
	// named match the name of a value and the value.
	named = []*regexp.Regexp{element, pair, quotedKey, escapedKey}
	// authorization matches the credentials in a header.
	authorization = regexp.MustCompile(`(?i)\bauthorization(?:["'\\]*\s*[:=]\s*["'\\]*|["'\\]*[\s,]+["'\\]+)(?:(basic|bearer|token|api-?key|digest|negotiate|splunk|aws4\S*)\s+|[a-z]+\s+)?([^\s"'\\,;<>]+)`)
	// namedList matches a list in one line, quoted its elements.
	namedList = regexp.MustCompile(`([\w.-]+)["']?\s*[:=]\s*\[([^\]]+)\]`)
	quoted    = regexp.MustCompile(`"([^"\\]+)"|'([^'\\]+)'`)
	// privateKey matches a private key in PEM, which is secret whatever it is called.
	privateKey = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----([^-]+)-----END`)
)

// secretsInLines returns what is named like a credential in the lines of a text, whatever its format.
func secretsInLines(file string) (out []string) {
	for line := range strings.Lines(file) {
		if !suspicious(line) {
			continue
		}
		if name, v, ok := strings.Cut(line, "="); ok {
			if holdsCredential(strings.TrimSpace(name), withoutQuotes(v)) && !strings.HasPrefix(v, "= ") { // a comparison
				out = append(out, withoutQuotes(v))
			}
			out = append(out, connectionPasswords(line)...)
		}
		if name, v, ok := strings.Cut(line, ":"); ok && isCredential(withoutQuotes(name)) {
			if v = withoutQuotes(strings.TrimRight(strings.TrimSpace(v), ",;")); token.MatchString(v) && isSecretText(withoutQuotes(name), v) && !variable.MatchString(v) {
				out = append(out, v)
			}
		}
		for _, format := range named {
			out = append(out, namedSecrets(format, line)...)
		}
		for _, m := range authorization.FindAllStringSubmatch(line, -1) {
			if isHeaderSecret(m[1], m[2]) {
				out = append(out, m[2])
			}
		}
		out = append(out, listedSecrets(line)...)
		out = append(out, secretWords(line, isSecretWord)...)
	}
	return append(out, namedSecrets(property, file)...)
}

// listedSecrets returns the elements of lists in a line that are named like credentials, as in tokens = ["x"].
func listedSecrets(line string) (out []string) {
	if !strings.Contains(line, "[") {
		return nil
	}
	for _, m := range namedList.FindAllStringSubmatch(line, -1) {
		for _, e := range quoted.FindAllStringSubmatch(m[2], -1) {
			if v := e[1] + e[2]; (scope{name: m[1]}).hidesElement(v) && !variable.MatchString(v) {
				out = append(out, v)
			}
		}
	}
	return out
}

// namedSecrets returns the values in a text whose names are those of credentials. The first group of format is the name.
func namedSecrets(format *regexp.Regexp, text string) (out []string) {
	for _, m := range format.FindAllStringSubmatch(text, -1) {
		v := strings.TrimSpace(strings.Join(m[2:], ""))
		if holdsCredential(m[1], v) && !strings.HasSuffix(strings.ToLower(m[1]), "auth") && !variable.MatchString(v) {
			out = append(out, v)
		}
	}
	return out
}

// secretWords returns the words of a line that follow a word named like a credential, without those that are variables, and words of
// a sentence or others that isSecret refuses.
func secretWords(line string, isSecret func(words []string, i int, v string) bool) (out []string) {
	words := strings.Fields(line)
	for i, word := range words[:max(len(words)-1, 0)] {
		v := strings.Trim(words[i+1], `"';,`)
		if isCredential(strings.Trim(word, `"':=-`)) && !lowerCase.MatchString(v) && !variable.MatchString(v) && isSecret(words, i, v) {
			out = append(out, v)
		}
	}
	return out
}

// isSecretWord reports whether v, which follows words[i] after a space, is a secret and not part of a sentence, a program or a name:
// --password X, requirepass X as a whole line, or what looks random.
func isSecretWord(words []string, i int, v string) bool {
	name := strings.ToLower(words[i])
	flag, isFlag := strings.CutPrefix(strings.TrimLeft(name, `"'`), "-")
	switch {
	case strings.Contains(name, "$") || strings.ContainsAny(v[:1], "-$/~.|&!*{[(<"):
		return false
	case isFlag && !strings.HasSuffix(flag, "auth") && strings.TrimLeft(flag, "-") != "secret": // often the name of one
		return true
	case i == 0 && len(words) == 2 && words[0] == name && isCredential(name) && name != "secret" && !capitalised.MatchString(v):
		return token.MatchString(v)
	}
	return looksRandom(v) && token.MatchString(v) && !strings.ContainsAny(v, "(){}[]<>$=|&")
}

var (
	// lowerCase matches a word of a sentence, capitalised another one.
	lowerCase   = regexp.MustCompile(`^[a-z]*$`)
	capitalised = regexp.MustCompile(`^[A-Z][a-z]*$`)
	// ordinary matches names, versions, standards and variables with digits, such as base64-encoded, v1beta1, RFC6750 and S3_BUCKET.
	ordinary = regexp.MustCompile(`^([a-z]+\d{0,2}(-([a-z]+\d{0,2}|\d{1,3}))*|v\d+(alpha|beta)\d+|[A-Z]{2,6}-?\d{1,4}(-[A-Z0-9]+)*|[A-Z][A-Z0-9]*(_[A-Z0-9]+)+)$`)
)

// looksRandom reports whether a word among others looks like a secret.
func looksRandom(v string) bool { return isShortSecret(v) && !ordinary.MatchString(v) }

// secretsInFile returns what may be a secret in a file of a Secret: also any word that follows a name, the last fields of lines
// of nothing but fields (.pgpass, htpasswd), and in YAML or JSON what looks random and is no address, whatever it is called.
func secretsInFile(file string) (out []string) {
	onlyFields := true
	var last []string
	for line := range strings.Lines(file) {
		out = append(out, secretWords(line, func([]string, int, string) bool { return true })...)
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		at := strings.LastIndexByte(words[0], ':')
		onlyFields = onlyFields && len(words) == 1 && at > 0 && !strings.Contains(line, "://")
		last = append(last, words[0][at+1:])
	}
	for _, v := range secretsInLines(file) {
		out = append(out, strings.TrimRight(v, "=")) // base64 without its padding
	}
	if onlyFields {
		out = append(out, last...)
	}
	for _, v := range scalars(asFile(file), nil) {
		if looksRandom(v) && !strings.ContainsAny(v, "./: ") {
			out = append(out, v)
		}
	}
	return out
}

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
		if holdsCredential(name, v) && !strings.HasSuffix(strings.ToLower(name), "auth") && !variable.MatchString(v) {
			out = append(out, v)
		}
	}
	for _, ends := range separators {
		for field := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(ends, r) }) {
			name, v, ok := strings.Cut(field, "=")
			if ok && len(field) < len(line) {
				add(name, withoutQuotes(v))
			}
			if inner, of, ok := strings.Cut(v, "="); ok && !namesFile(name) { // --from-literal=password=x
				add(inner, withoutQuotes(of))
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

// namesFile reports whether a flag has a file where another one has a value, as in --from-file=password=x.
func namesFile(flag string) bool { return strings.HasSuffix(flag, "-file") }

// variable matches a value in a script or a template that refers to another one.
var variable = regexp.MustCompile(`^(\$[({]|\$[A-Z_]+(/.*)?$|\$\d$|\{\{|<\w)`)

// urlPassword matches the credentials in a URL. A password should have no @ or slash in it, but many have. The number of a
// port with a path is none.
var urlPassword = regexp.MustCompile(`(://[^\s/:@"']*:)([^\s/"']+|\d*[^\s/"'\d][^\s"']*)@`)

// strictPassword matches the credentials in a URL of which the host may have another one, as in a list of URLs.
var strictPassword = regexp.MustCompile(`(://[^\s/:@"']*:)([^\s/@"']+)@`)

// dsnPassword matches the credentials in the address of a database as Go's driver for MySQL reads it, or Java's one for Oracle.
var dsnPassword = regexp.MustCompile(`[\w.-]+:([^\s"']+)@(?:tcp|unix)\(|jdbc:oracle:\w+:[^\s/:@"']+/([^\s"'@]+)@`)

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
		out = append(out, m[1]+m[2])
	}
	return out
}
