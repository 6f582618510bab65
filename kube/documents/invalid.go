package documents

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// parserError matches an error of a YAML parser, or the first of several.
var parserError = regexp.MustCompile(`(?s)yaml: (?:unmarshal errors:\s+)?line (\d+): (.*)`)

// plainErrors are the most frequent messages of the parser in plain words.
var plainErrors = map[string]string{
	"mapping values are not allowed in this context":  `unexpected ":"; check the indentation`,
	"did not find expected key":                       "expected a key; check the indentation",
	"did not find expected '-' indicator":             `expected "-"; check the indentation`,
	"did not find expected ',' or ']'":                `a "[" is not closed`,
	"did not find expected ',' or '}'":                `a "{" is not closed`,
	"did not find expected node content":              "expected a value",
	"found unexpected end of stream":                  "a quote is not closed",
	"found character that cannot start any token":     "a value starts with a reserved character, such as @, % or a tab; quote it",
	"found a tab character that violates indentation": "indented with a tab; use spaces",
	"could not find expected ':'":                     `expected ":" after a key`,
}

// SyntaxError returns the line of a YAML parser's error, 0 if it has none, and its message in plain
// words.
func SyntaxError(err error) (line int, message string) {
	parts := parserError.FindStringSubmatch(err.Error())
	if parts == nil {
		return 0, strings.TrimPrefix(err.Error(), "yaml: ")
	}
	line, _ = strconv.Atoi(parts[1])
	message = parts[2]
	if strings.HasPrefix(message, "did not find expected") {
		line++ // in these messages the parser counts lines from 0
	}
	if plain := plainErrors[message]; plain != "" {
		message = plain
	}
	return line, message
}

// notMapping matches an error about a values file that contains something other than a mapping.
var notMapping = regexp.MustCompile(`json: cannot unmarshal (\w+) into Go value of type map`)

// ValuesError explains an error about a values file that is not a YAML mapping.
func ValuesError(file string, err error) error {
	if found := notMapping.FindStringSubmatch(err.Error()); found != nil {
		kind := map[string]string{"array": "a list", "string": "a string", "number": "a number", "bool": "true or false"}[found[1]]
		return fmt.Errorf("values file %s: must be a mapping (key: value), but is %s", file, kind)
	}
	if line, message := SyntaxError(err); line > 0 {
		return fmt.Errorf("values file %s:%d: invalid YAML: %s", file, line, message)
	}
	return fmt.Errorf("values file %s: %w", file, err)
}
