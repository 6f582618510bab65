package documents

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// TestValuesError: errors about a values file name the line and say what to write.
func TestValuesError(t *testing.T) {
	for text, want := range map[string]string{
		"a:\n\tb: c\n":                     "v.yaml:2: invalid YAML: indented with a tab; use spaces",
		"\ta: c\n":                         "v.yaml:1: invalid YAML: indented with a tab; use spaces",
		"a: @x\n":                          "v.yaml:1: invalid YAML: a value starts with a reserved character, such as @, % or a tab; quote it",
		"a: 1\nb: {{ x }}\n":               "v.yaml:2: template syntax ({{ … }}) in a plain YAML file; quote it",
		"a: {{ .Values.x }}-b\n":           "v.yaml:1: template syntax ({{ … }}) in a plain YAML file; quote it",
		"{{- if .x }}\na: 1\n{{- end }}\n": "v.yaml:1: template syntax ({{ … }}) in a plain YAML file; quote it",
		"? {a: b}\n: c\n":                  "v.yaml: invalid YAML: a key is a mapping; write a string",
		"a: 1\nb: c\x00d\n":                "v.yaml:2: invalid YAML: contains a control character; remove it",
		"a: 1\nb: \xff\n":                  "v.yaml:2: invalid YAML: not UTF-8; save the file as UTF-8",
		"a: *x\n":                          "v.yaml: invalid YAML: unknown anchor 'x' referenced",
		"a: [\n":                           `v.yaml:1: invalid YAML: a "[" or "{" is not closed`,
		"a: 1\nb: {":                       `v.yaml:2: invalid YAML: a "[" or "{" is not closed`,
		"a: 1\nb: [{{ .x }}]\n":            "v.yaml:2: template syntax ({{ … }}) in a plain YAML file; quote it",
		"a: 1\nb: [c, {{ .x }}]\n":         "v.yaml:2: template syntax ({{ … }}) in a plain YAML file; quote it",
		"a: '[{{'\n? {b: c}\n: d\n":        "v.yaml: invalid YAML: a key is a mapping; write a string",
		"- a\n":                            "v.yaml: must be a mapping (key: value), but is a list",
	} {
		values := map[string]any{}
		err := yaml.Unmarshal([]byte(text), &values)
		if err == nil {
			t.Errorf("%q: no error", text)
		} else if got := ValuesError("v.yaml", []byte(text), err).Error(); got != "values file "+want {
			t.Errorf("%q:\n got %s\nwant values file %s", text, got, want)
		}
	}
	err := yaml.Unmarshal([]byte("a: 1\nb: c\x00\n"), &map[string]any{})
	if got := ValuesError("-", nil, err).Error(); got != "values file -: invalid YAML: contains a control character; remove it" {
		t.Error(got)
	}
}
