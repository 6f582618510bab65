package documents

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// SetFlag is --set, or a flag like it, with its arguments.
type SetFlag struct {
	Name      string
	Arguments []string
	// Parse adds the values of an argument to a map, as Helm does.
	Parse func(argument string, to map[string]any) error
}

// Parts returns the assignments in an argument.
func (f SetFlag) Parts(argument string) []string { return Assignments(f.Name, argument) }

// Assignments returns the parts key=value of an argument of --set or a flag like it, as Helm splits them. The argument of
// another flag, or of --set-literal, is one part: a comma in it is part of the value.
func Assignments(flag, argument string) []string {
	switch strings.TrimPrefix(flag, "--") {
	case "set", "set-string", "setString", "set-file", "state-values-set":
		return setParts(argument)
	case "set-json":
		return jsonParts(argument)
	}
	return []string{argument}
}

// Error rewords err, Helm's error about an argument of the flag. Helm quotes what it takes for a key, which is the rest of a
// password if a comma in it is not escaped, so Error shows only a key in front of the first comma. soFar contains the
// values of the flags before it; Error changes it.
func (f SetFlag) Error(soFar map[string]any, err error) error {
	for _, argument := range f.Arguments {
		if f.Parse(argument, soFar) == nil {
			continue
		}
		parts := f.Parts(argument)
		first, _, _ := strings.Cut(parts[0], "=")
		isKey := plainKey.MatchString(first)
		for i, part := range parts {
			switch defect := f.Parse(part, soFar); {
			case defect == nil:
				continue
			case i == 0 && isKey:
				return fmt.Errorf("invalid %s: %w", f.Name, firstDefect(defect))
			case i == 0:
				return fmt.Errorf("invalid %s: the argument %s; use key=value", f.Name, setReason(defect))
			case isKey:
				return fmt.Errorf(`invalid %s: part %d, after %s=…, %s; write a comma inside a value as \,`, f.Name, i+1, first, setReason(defect))
			default:
				return fmt.Errorf(`invalid %s: part %d of the argument %s; write a comma inside a value as \,`, f.Name, i+1, setReason(defect))
			}
		}
	}
	return fmt.Errorf("invalid %s: an argument %s", f.Name, setReason(err))
}

// plainKey matches a key that cannot contain a value, such as JSON or a line of YAML.
var plainKey = regexp.MustCompile(`^[\w./\\\[\]-]+$`)

// Patterns of Helm's errors about the first key of an argument.
var (
	keyOnly   = regexp.MustCompile(`key (?:map )?"[^"]*" has no value$`)
	notNumber = regexp.MustCompile(`strconv\.\w+: parsing ("[^"]*"): invalid syntax`)
	badIndex  = regexp.MustCompile(`error parsing index: ("[^"]*") is not a number`)
)

// firstDefect rewords an error that quotes parts of a plain key.
func firstDefect(err error) error {
	text := keyOnly.ReplaceAllString(err.Error(), "$0; use key=value")
	text = notNumber.ReplaceAllString(text, "$1 is not a number")
	return errors.New(badIndex.ReplaceAllString(text, "index $1 is not a number; number the elements from 0: list[0]=value"))
}

// setReasons are texts in Helm's errors, and what they say about an assignment.
var setReasons = []struct{ text, reason string }{
	{"has no value", "has no value"},
	{"error parsing index", "has an index that is not a number"},
	{"unexpected data at end of array index", "has text between an index and the equals sign"},
	{"list must terminate", "has a list without a closing brace"},
	{"negative", "has a negative index"},
	{"maximum supported index", "has an index that is too large"},
	{"nested level", "has a key with too many parts"},
	{"unable to parse key", "sets a field or an element of a value that is no map or list"},
}

// setReason returns the reason of an error without anything that it quotes.
func setReason(err error) string {
	for _, r := range setReasons {
		if strings.Contains(err.Error(), r.text) {
			return r.reason
		}
	}
	return "cannot be parsed"
}

// jsonParts splits key1=JSON,key2=JSON at the ends of the JSON values. A whole JSON object, and what is no JSON, is one part.
func jsonParts(argument string) (parts []string) {
	for rest := argument; ; {
		key, value, _ := strings.Cut(rest, "=")
		d := json.NewDecoder(strings.NewReader(value))
		var parsed json.RawMessage
		if strings.HasPrefix(strings.TrimSpace(rest), "{") || d.Decode(&parsed) != nil {
			return append(parts, rest)
		}
		end := len(key) + 1 + int(d.InputOffset())
		before, after, more := strings.Cut(rest[end:], ",")
		if parts = append(parts, rest[:end]+before); !more {
			return parts
		}
		rest = after
	}
}

// setParts splits key1=val1,key2={a,b} as Helm does: at commas that are neither escaped nor in a list, and behind a list.
func setParts(argument string) (parts []string) {
	start, inValue, inList := 0, false, false
	for i := 0; i < len(argument); i++ {
		switch c := argument[i]; {
		case c == '\\':
			i++
		case inList && c == '}':
			inList = false
			if i+1 < len(argument) && argument[i+1] != ',' {
				parts, start, inValue = append(parts, argument[start:i+1]), i+1, false
			}
		case inList:
		case c == ',':
			parts, start, inValue = append(parts, argument[start:i]), i+1, false
		case c == '=' && !inValue:
			inValue = true
			if inList = strings.HasPrefix(argument[i+1:], "{"); inList {
				i++
			}
		}
	}
	return append(parts, argument[start:])
}
