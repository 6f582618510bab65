package charts

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestSecretsInHookListsAreHidden (S14): --dry-run hides the values of Secrets in the lists of hooks, and shows their other objects.
func TestSecretsInHookListsAreHidden(t *testing.T) {
	r := render(t, tree{
		"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"templates/hook.yaml": `apiVersion: v1
kind: List
metadata: {annotations: {helm.sh/hook: pre-install}}
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {mode: fast-mode}}
- {apiVersion: v1, kind: SecretList, items: [{metadata: {name: one}, stringData: {a: hunter2abc}}]}
- {apiVersion: v1, kind: Secret, metadata: {name: two}, stringData: {a: hunter2abc}}
`,
	}, nil)
	r.HideSecrets()
	var out strings.Builder
	if err := r.Print(&out, nil, PrintOptions{}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "fast-mode") || strings.Count(text, "(hidden)") != 2 {
		t.Errorf("prints\n%s", text)
	}
}

// quotingRenderer fails with its input.
type quotingRenderer struct{}

func (quotingRenderer) Run(in *bytes.Buffer) (*bytes.Buffer, error) {
	return nil, fmt.Errorf("cannot read %q", in.String())
}

// TestPostRendererErrorsHideSecrets (S14): a post-renderer may quote a password that the chart has generated.
func TestPostRendererErrorsHideSecrets(t *testing.T) {
	_, err := PostRenderOnce(quotingRenderer{}, Limits{}).Run(bytes.NewBufferString("kind: Secret\napiVersion: v1\nstringData: {a: hunter2abc}\n"))
	if text := fmt.Sprint(err); strings.Contains(text, "hunter2") || !strings.Contains(text, "(hidden)") {
		t.Error(text)
	}
}

// TestErrorsOfTemplatesHideSecrets (S14): an error of a template hides the values that Secrets take from other templates, or take
// apart, and not the names that these use.
func TestErrorsOfTemplatesHideSecrets(t *testing.T) {
	const quote = `{{ fail (printf "%s of %s" .Values.login.pin .Values.fullnameOverride) }}`
	for name, secret := range map[string]string{
		"include":  "stringData: {a: {{ include \"outer\" . }}}",
		"with":     "{{ with .Values.login }}\nstringData: {a: {{ .pin }}}{{ end }}",
		"range":    "stringData:\n{{ range $k, $v := .Values.login }}\n  {{ $k }}: {{ $v }}{{ end }}",
		"variable": "{{ $login := .Values.login }}\nstringData: {a: {{ $login.pin }}}",
		"direct":   "stringData: {a: {{ .Values.login.pin }}}",
	} {
		_, err := Render(t.Context(), load(t, tree{
			"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
			"templates/_helpers.tpl": `{{ define "name" }}{{ .Values.fullnameOverride }}{{ end }}{{ define "inner" }}{{ template "name" . }}{{ .Values.login.pin }}{{ end }}
{{ define "outer" }}{{ include "inner" . }}{{ include "outer" . }}{{ end }}`,
			"templates/secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n" + secret,
			"templates/zero.yaml":   quote,
		}), map[string]any{"fullnameOverride": "corner-shop", "login": map[string]any{"pin": "hunter2abc"}}, testOptions)
		if text := fmt.Sprint(err); strings.Contains(text, "hunter") || !strings.Contains(text, "(hidden) of corner-shop") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
