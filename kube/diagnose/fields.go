package diagnose

import (
	"cmp"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wrongType matches the API server's message about a value of the wrong type, up to the end of the line: the message quotes
// the value, which may be secret. wrongJSON matches the message of the API server's JSON decoder.
var (
	wrongType = regexp.MustCompile(`: expected (string|numeric|boolean|list|map|any scalar)(?: \(int or float\))?, got (.*)`)
	wrongJSON = regexp.MustCompile(`json: cannot unmarshal (\w+) into Go struct field (?:\w*\.)?(\S+) of type (.*)`)
)

// quoteIt is the advice about a number or a boolean that must be a string.
const quoteIt = "; quote it"

// ExplainTypes rewords the API server's messages about values of the wrong type, and hides the values: "data.a must be a
// string, but is a number; quote it".
func ExplainTypes(text string) string {
	return rewordTypes(text, func(want, got string) string {
		mismatch, quote := typeMismatch(want, got)
		if quote {
			mismatch += quoteIt
		}
		return mismatch
	})
}

// rewordTypes replaces the messages about values of the wrong type by what mismatch says of the types.
func rewordTypes(text string, mismatch func(want, got string) string) string {
	text = wrongType.ReplaceAllStringFunc(text, func(s string) string {
		m := wrongType.FindStringSubmatch(s)
		return " " + mismatch(m[1], typeOf(m[2]))
	})
	return wrongJSON.ReplaceAllStringFunc(text, func(s string) string {
		m := wrongJSON.FindStringSubmatch(s)
		return "a value in " + m[2] + " " + mismatch(typeOfGo(m[3]), typeOfGo(m[1]))
	})
}

// typedPatch matches a message about the fields of an object in a server-side apply: one error per line.
var typedPatch = regexp.MustCompile(`(?s)^failed to create typed patch object \(.*?; .*?, Kind=[^)]*\): (?:errors:)?(.*)$`)

// FieldFault is a fault of one field of an object that the API server refuses.
type FieldFault struct {
	Text string // "unknown field spec.x", "data.a must be a string, but is a number"
	// Unknown means that the kind has no such field, Quote that the value must be quoted, Name that it is the name of the
	// object, Undecodable that the API server refuses every kind of request with it.
	Unknown, Quote, Name, Undecodable bool
}

var (
	// strictDecoding matches messages about writes other than a server-side apply.
	strictDecoding = regexp.MustCompile(`(?s)strict decoding error: (.*)$`)
	unknownField   = regexp.MustCompile(`^unknown field "(.*)"$`)
	invalidName    = regexp.MustCompile(`\bmetadata\.name: Invalid value: "[^"]*": ([^\n]*?)(?:, (?:metadata|spec)\.\S+: .*)?\]?$`)
	// undecodable matches messages about a value that cannot be decoded, which do not name the field.
	undecodable = regexp.MustCompile(`(?:unable to convert unstructured object to .*?, Kind=\S+: (?:error decoding from json: )?|` +
		`cannot be handled as a \S+: )(.*)$`)
)

// FieldFaults returns the faults that the API server's error about an object names. They have the same texts for apply,
// create and update, and none contains a value.
func FieldFaults(err error) []FieldFault {
	message := plainMessage(err.Error())
	if faults := patchFaults(message); faults != nil {
		return faults
	}
	if apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueInvalid) {
		if m := invalidName.FindStringSubmatch(message); m != nil {
			return []FieldFault{{Text: "invalid name: " + m[1], Name: true, Undecodable: true}}
		}
	}
	if m := strictDecoding.FindStringSubmatch(message); m != nil {
		var faults []FieldFault
		for line := range strings.SplitSeq(m[1], ", ") {
			if m := unknownField.FindStringSubmatch(line); m != nil {
				faults = append(faults, FieldFault{Text: "unknown field " + m[1], Unknown: true})
			} else {
				faults = append(faults, typeFault(line))
			}
		}
		return faults
	}
	m := undecodable.FindStringSubmatch(message)
	if m == nil {
		return nil
	}
	f := typeFault(m[1])
	if f.Undecodable = true; f.Text == m[1] {
		f.Text = "a value cannot be decoded: " + f.Text
	}
	return []FieldFault{f}
}

// patchFaults returns the faults in a message about a server-side apply, nil for other messages.
func patchFaults(message string) (faults []FieldFault) {
	m := typedPatch.FindStringSubmatch(message)
	if m == nil {
		return nil
	}
	for line := range strings.SplitSeq(m[1], "\n") {
		line = strings.TrimPrefix(strings.TrimSpace(line), ".")
		if field, unknown := strings.CutSuffix(line, ": field not declared in schema"); unknown {
			faults = append(faults, FieldFault{Text: "unknown field " + field, Unknown: true})
		} else if line != "" {
			faults = append(faults, typeFault(line))
		}
	}
	return faults
}

// typeFault returns the fault in a message about a value of the wrong type, or with the unchanged message.
func typeFault(message string) (f FieldFault) {
	f.Text = rewordTypes(message, func(want, got string) string {
		mismatch, quote := typeMismatch(want, got)
		f.Quote = quote
		return mismatch
	})
	return f
}

// typeMismatch says that a value has one type instead of another, and whether quotes correct it. got is "" if it is unknown.
func typeMismatch(want, got string) (text string, quote bool) {
	names := map[string]string{"numeric": "number", "any scalar": "string, number or boolean"}
	text = "must be a " + cmp.Or(names[want], want) + ", but "
	if got == "" {
		return text + "has another type", false
	}
	return text + "is a " + got, want == "string" && (got == "number" || got == "boolean")
}

// rawValue matches a value that a message about its type quotes.
var rawValue = regexp.MustCompile(`^&value\.valueUnstructured\{Value:(.*)\}$`)

// typeOf returns the YAML type of a quoted value. Some messages quote the value, others only its Go type.
func typeOf(got string) string {
	m := rawValue.FindStringSubmatch(got)
	if m == nil {
		return typeOfGo(got)
	}
	switch value := m[1]; {
	case value == "true", value == "false":
		return "boolean"
	case strings.HasPrefix(value, `"`):
		return "string"
	default:
		return cmp.Or(typeOfGo(value), "number")
	}
}

// typeOfGo returns the YAML type for the name of a type in Go or in encoding/json, "" for other text.
func typeOfGo(name string) string {
	kind, _, composite := strings.Cut(name, "[")
	switch strings.TrimRight(kind, "0123456789") {
	case "int", "uint", "float", "number":
		return "number"
	case "map", "object":
		return "map"
	case "array":
		return "list"
	case "bool":
		return "boolean"
	case "string":
		return "string"
	}
	if composite && kind == "" {
		return "list"
	}
	return ""
}
