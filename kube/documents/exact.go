package documents

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// ExactSuffix ends the name of a values file that EncodeExact has written.
const ExactSuffix = ".exact.json"

// encodedBytes starts a string that JSON cannot hold as it is: the rest is base64.
const encodedBytes = "\x00"

func encodeString(s string) string {
	if utf8.ValidString(s) && !strings.HasPrefix(s, encodedBytes) {
		return s
	}
	return encodedBytes + base64.StdEncoding.EncodeToString([]byte(s))
}

func decodeString(s string) string {
	encoded, ok := strings.CutPrefix(s, encodedBytes)
	if !ok {
		return s
	}
	data, _ := base64.StdEncoding.DecodeString(encoded) // written by encodeString
	return string(data)
}

// EncodeExact encodes values such that DecodeExact returns the same. YAML and JSON do not: a number from --set, an
// int64, would become a float64, which a template prints as 1e+06, and the invalid UTF-8 of a binary file from
// --set-file would be replaced.
func EncodeExact(values map[string]any) (string, error) {
	data, err := json.Marshal(mapScalars(values, encodeString, func(v any) any {
		if f, ok := v.(float64); ok {
			return json.Number(strconv.FormatFloat(f, 'e', -1, 64)) // an exponent tells it from an integer
		}
		return v
	}))
	if err != nil {
		return "", fmt.Errorf("encode values: %w", err)
	}
	return string(data), nil
}

// DecodeExact decodes the output of EncodeExact, or YAML.
func DecodeExact(text string) (values map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber()
	if decoder.Decode(&values) != nil {
		values = nil
		err = yaml.Unmarshal([]byte(text), &values)
		return values, err
	}
	decoded := mapScalars(values, decodeString, func(v any) any {
		number, ok := v.(json.Number)
		if !ok {
			return v
		}
		if n, err := number.Int64(); err == nil {
			return n
		}
		f, _ := number.Float64()
		return f
	})
	return decoded.(map[string]any), nil
}

// mapScalars returns a copy of a value with each string, keys included, and each other scalar replaced.
func mapScalars(v any, text func(string) string, scalar func(any) any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, e := range v {
			out[text(key)] = mapScalars(e, text, scalar)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = mapScalars(e, text, scalar)
		}
		return out
	case string:
		return text(v)
	}
	return scalar(v)
}
