package documents

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// parserError matches a YAML parser's error: the line of the first problem, and the rest of the text.
var parserError = regexp.MustCompile(`(?s)yaml: (?:unmarshal errors:\s+)?line (\d+): (.*)`)

// parserPrefix matches the prefix of a YAML parser's error.
var parserPrefix = regexp.MustCompile(`^(?:.*error converting YAML to JSON: )?yaml: `)

// Messages for which SyntaxError checks the file to correct the line or the message.
const (
	reserved = "a value starts with a reserved character, such as @, % or a tab; quote it"
	tab      = "indented with a tab; use spaces"
	control  = "contains a control character; remove it"
	noValue  = "expected a value"
)

// plainErrors maps the parser's most common messages to plain English.
var plainErrors = map[string]string{
	"mapping values are not allowed in this context":  `unexpected ":"; check the indentation`,
	"did not find expected key":                       "expected a key; check the indentation",
	"did not find expected '-' indicator":             `expected "-"; check the indentation`,
	"did not find expected ',' or ']'":                `a "[" is not closed`,
	"did not find expected ',' or '}'":                `a "{" is not closed`,
	"did not find expected node content":              noValue,
	"found unexpected end of stream":                  "a quote is not closed",
	"found character that cannot start any token":     reserved,
	"found a tab character that violates indentation": tab,
	"could not find expected ':'":                     `expected ":" after a key`,
	"control characters are not allowed":              control,
}

// SyntaxError returns the line of a YAML parser's error about data, 0 if it has none, and the message in
// plain words.
func SyntaxError(data []byte, err error) (line int, message string) {
	if parts := parserError.FindStringSubmatch(err.Error()); parts != nil {
		line, _ = strconv.Atoi(parts[1])
		message = parts[2]
	} else {
		message = parserPrefix.ReplaceAllString(err.Error(), "")
	}
	plain, frequent := plainErrors[message]
	if strings.HasPrefix(message, "did not find expected") || line == 0 && frequent {
		line++ // the parser counts lines from 0 in these messages, and omits line 0
	}
	if frequent {
		message = plain
	}
	lines := bytes.Split(data, []byte("\n"))
	last := bytes.Count(bytes.TrimRight(data, "\n"), []byte("\n")) + 1
	switch {
	case len(data) > 0 && line > last: // the parser reached the end of the file
		line = last
		if message == noValue {
			message = `a "[" or "{" is not closed`
		}
	case message == reserved && line <= len(lines) && tabIndented(lines[line-1]):
		message = tab
	case message == tab: // the parser names an earlier line
		if i := slices.IndexFunc(lines[min(line-1, len(lines)):], tabIndented); i >= 0 {
			line += i
		}
	case message == control:
		line = 1 + slices.IndexFunc(lines, func(text []byte) bool { return bytes.ContainsFunc(text, isControl) })
	case strings.Contains(message, "UTF-8"):
		line = 1 + slices.IndexFunc(lines, func(text []byte) bool { return !utf8.Valid(text) })
		message = "not UTF-8; save the file as UTF-8"
	case strings.HasPrefix(message, "invalid map key: map["):
		message = "a key is a mapping; write a string"
	}
	return line, message
}

func tabIndented(text []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(text, " "), []byte("\t")) }

func isControl(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\r' }

// template matches a line whose value, list item or whole content starts with an unquoted {{.
var template = regexp.MustCompile(`^\s*(- +)?([\w.-]+: +)?(\[([^'"#]*,)?\s*)?\{\{`)

// templateAlone matches a line of only a template, blockScalar a line that starts a block scalar.
var (
	templateAlone = regexp.MustCompile(`^\s*\{\{.*\}\}\s*$`)
	blockScalar   = regexp.MustCompile(`(?:^|[\s:-])[|>][-+\d]*\s*(?:#.*)?$`)
)

// TemplateLine returns the line of the template that makes data invalid YAML, or 0. err is the parser's
// error. It may name the line where the surrounding block starts; a template on its own line outside a block scalar is
// always invalid.
func TemplateLine(data []byte, err error) int {
	near, _ := SyntaxError(data, err) // may be off by one
	if near == 0 && !strings.Contains(err.Error(), "yaml: invalid map key") {
		return 0
	}
	alone, block := 0, -1 // block is the indentation of the line that starts a block scalar
	for i, text := range bytes.Split(data, []byte("\n")) {
		n, indent := i+1, len(text)-len(bytes.TrimLeft(text, " "))
		if template.Match(text) && (near == 0 || n >= near-1 && n <= near+1) {
			return n
		}
		switch {
		case block >= 0 && (indent > block || len(bytes.TrimSpace(text)) == 0):
			continue
		case blockScalar.Match(text):
			block = indent
			continue
		case alone == 0 && n > near && templateAlone.Match(text):
			alone = n
		}
		block = -1
	}
	return alone
}

// Invalid explains a YAML parser's error about a file. It returns other errors unchanged.
func Invalid(file string, data []byte, err error) error {
	if !parserPrefix.MatchString(err.Error()) {
		return err
	}
	if line := TemplateLine(data, err); line > 0 {
		return fmt.Errorf("%s:%d: template syntax ({{ … }}) in a plain YAML file; quote it", file, line)
	}
	line, message := SyntaxError(data, err)
	if line == 0 {
		return fmt.Errorf("%s: invalid YAML: %s", file, message)
	}
	return fmt.Errorf("%s:%d: invalid YAML: %s", file, line, message)
}

// typeError matches an error about a value of the wrong type: its kind, its field, and the Go type that it must have.
var typeError = regexp.MustCompile(`json: cannot unmarshal (\w+) into Go (?:value|struct field \w*\.(\S+)) of type (.*)`)

// TypeError returns the field in an error about a value of the wrong type, "" for the whole document, and
// says what it must be: "must be a mapping (key: value), but is a list". message is "" for other errors.
func TypeError(err error) (field, message string) {
	found := typeError.FindStringSubmatch(err.Error())
	if found == nil {
		return "", ""
	}
	field, want := found[2], "a mapping (key: value)"
	if found[3] == "string" {
		want = "a string"
	}
	if field == "metadata.annotations" && found[3] == "string" {
		field = "a value in " + field
	}
	kind := map[string]string{"array": "a list", "object": "a mapping", "string": "a string", "number": "a number", "bool": "true or false"}[found[1]]
	return field, "must be " + want + ", but is " + kind
}

// ValuesError explains an error about a values file that is not a YAML mapping. data is its contents,
// nil if unknown.
func ValuesError(file string, data []byte, err error) error {
	if _, message := TypeError(err); message != "" {
		return fmt.Errorf("values file %s: %s", file, message)
	}
	if invalid := Invalid(file, data, err); invalid != err {
		return fmt.Errorf("values file %w", invalid)
	}
	return fmt.Errorf("values file %s: %w", file, err)
}
