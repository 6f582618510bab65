package helmfile

import "testing"

// TestSyntaxErrors: errors about YAML name the line and say in plain words what is wrong.
func TestSyntaxErrors(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb: ./x\n  c: 1\n":                  `f.yaml:3: invalid YAML: unexpected ":"; check the indentation`,
		"a: 1\nb: ./x\n\tc: 1\n":                  `f.yaml:3: invalid YAML: indented with a tab; use spaces`,
		"a:\n- b: \"c\n  d: e\n":                  `f.yaml:2: invalid YAML: a quote is not closed`,
		"a:\n- b: [c\n  d: e\n":                   `f.yaml:2: invalid YAML: a "[" is not closed`,
		"a:\n- b: c\n  d:\n  - e: f\n g: h\n":     `f.yaml:5: invalid YAML: expected a key; check the indentation`,
		"a: [\n":                                  `f.yaml:1: invalid YAML: a "[" or "{" is not closed`,
		"a: 1\nvalues: [{{ .x }}]\n":              `f.yaml:2: template syntax ({{ … }}) in a plain YAML file; quote it, or rename the file to f.yaml.gotmpl`,
		"a: &x [*x]\n":                            `f.yaml: invalid YAML: anchor 'x' value contains itself`,
		"a:\n- b: {{ .Values.x }}\n":              `f.yaml:2: template syntax ({{ … }}) in a plain YAML file; quote it, or rename the file to f.yaml.gotmpl`,
		"a:\n{{ range .x }}\n- b: c\n{{ end }}\n": `f.yaml:2: template syntax ({{ … }}) in a plain YAML file; quote it, or rename the file to f.yaml.gotmpl`,
		"# x\na:\n  # y\n  {{ if .x }}\n  - b: c\n    d: ./e\n  {{ end }}\n": `f.yaml:4: template syntax ({{ … }}) in a plain YAML file; quote it, or rename the file to f.yaml.gotmpl`,
		"a: \"{{ .x }}\"\nb: c\n  d: e\n":                                    `f.yaml:3: invalid YAML: unexpected ":"; check the indentation`,
		"a:\n  d: e\n f: g\nh: |\n  {{ .x }}\n":                              `f.yaml:3: invalid YAML: expected a key; check the indentation`,
		"a: 1\na: 2\n":                                                       `f.yaml:2: invalid YAML: mapping key "a" already defined at line 1`,
	} {
		if _, err := parse("f.yaml", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}
