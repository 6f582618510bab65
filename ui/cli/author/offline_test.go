package author

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/ui/cli/input"
)

// TestOfflineChart: all objects would be created, manifests are shown without secret values,
// and live objects are unavailable.
func TestOfflineChart(t *testing.T) {
	const canary = "canary-of-the-secret"
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "templates"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"Chart.yaml":         "apiVersion: v2\nname: c\nversion: 1.0.0\n",
		"templates/all.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {key: " + canary + "}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {quotes: " + canary + ", plain: text}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := charts.LoadPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := charts.Render(t.Context(), c, nil, charts.RenderOptions{Release: "r", Namespace: "n"})
	if err != nil {
		t.Fatal(err)
	}
	look, ctx := offlineInspector(&input.Rendered{Rendered: r}), context.Background()
	for name, want := range map[string]string{"s": "key: (hidden)", "m": "quotes: (hidden)"} {
		kind := map[string]string{"s": "Secret", "m": "ConfigMap"}[name]
		it := inspect.Item{Object: plan.Object{Kind: kind, Namespace: "n", Name: name}}
		if change, err := look.Change(ctx, it); err != nil || change.Action != "create" {
			t.Errorf("%s: %+v, %v", name, change, err)
		}
		if text, err := look.Sent(ctx, it); err != nil || !strings.Contains(text, want) || strings.Contains(text, canary) {
			t.Errorf("%s: got %q, %v, want %q without the secret", name, text, err, want)
		}
		if _, err := look.Live(ctx, it.Object); !errors.Is(err, errOffline) {
			t.Errorf("%s: live object: got %v, want %v", name, err, errOffline)
		}
	}
}
