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
