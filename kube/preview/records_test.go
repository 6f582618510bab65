package preview

import (
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
)

// TestCompareRecords: new, changed and deleted objects and values of two records, without secret values.
func TestCompareRecords(t *testing.T) {
	record := func(config map[string]any, manifest string) *rel1.Release {
		return &rel1.Release{Name: "shop", Namespace: "shop", Config: config, Manifest: manifest, Chart: &v2.Chart{Metadata: &v2.Metadata{Name: "shop"}}}
	}
	const object = "---\n# Source: shop/templates/all.yaml\napiVersion: v1\nkind: %s\nmetadata: {name: %s}\n%s\n"
	before := record(map[string]any{"replicas": 1, "password": "old-password"},
		fmt.Sprintf(object, "ConfigMap", "same", "data: {a: b}")+fmt.Sprintf(object, "ConfigMap", "api", "data: {currency: EUR}")+
			fmt.Sprintf(object, "ConfigMap", "gone", "")+fmt.Sprintf(object, "Secret", "s", "stringData: {x: first-secret}"))
	after := record(map[string]any{"replicas": 3, "password": "new-password"},
		fmt.Sprintf(object, "ConfigMap", "same", "data: {a: b}")+fmt.Sprintf(object, "ConfigMap", "api", "data: {currency: CHF}")+
			fmt.Sprintf(object, "Secret", "s", "stringData: {x: second-secret}")+fmt.Sprintf(object, "ConfigMap", "new", "")+"---\n# only a comment\n")
	got, err := CompareRecords(before, after)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range got.Values {
		lines = append(lines, f.Lines...)
	}
	for _, c := range got.Objects {
		lines = append(lines, string(c.Action)+" "+c.Object.String())
		for _, f := range c.Fields {
			lines = append(lines, f.Lines...)
		}
	}
	all := strings.Join(lines, "\n")
	for _, want := range []string{"-replicas: 1\n+replicas: 3", "change ConfigMap/api\n-currency: EUR\n+currency: CHF", "change Secret/s", "create ConfigMap/new", "delete ConfigMap/gone"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	for _, secret := range []string{"old-password", "new-password", "first-secret", "second-secret"} {
		if strings.Contains(fmt.Sprint(all, got), secret) {
			t.Errorf("%s is not hidden in\n%s\n%v", secret, all, got)
		}
	}
	if strings.Contains(all, "same") {
		t.Errorf("an unchanged object is listed:\n%s", all)
	}
	first, err := CompareRecords(nil, before)
	if err != nil || len(first.Objects) != 4 || len(first.Values) != 2 {
		t.Errorf("the first revision: %v %v", first, err)
	}
	if same, err := CompareRecords(after, after); err != nil || len(same.Objects)+len(same.Values) > 0 {
		t.Errorf("a record differs from itself: %v %v", same, err)
	}
}
