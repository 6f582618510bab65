package recovery

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestUndecodedRecord: a record that cannot be decoded, which Helm skips, is no missing one, whichever revision it is of and
// whatever is wrong with it. Every operation, its plan, recover and status name it, say what to do, and write nothing.
func TestUndecodedRecord(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		content   string
		revisions int
		of        string
	}{
		"the only one, no base64": {"\x00", 1, "v1"},
		"the last one, no JSON":   {"AAAA", 2, "v2"},
		"an older one, empty":     {"", 2, "v1"},
		"the last one, cut short": {"H4sIAAAAAAAC", 2, "v2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			chart := func(v string) *charts.Chart { return rig.ChartOf(t, rig.ConfigMap("a", nil, "v: "+v)) }
			r.Deploy("plain", rig.UseChart(chart("one"), nil))
			if tt.revisions == 2 {
				r.MustRun(r.Upgrade("plain", rig.UseChart(chart("two"), nil)))
			}
			record := "sh.helm.release.v1.t." + tt.of
			patch, err := json.Marshal(map[string]any{"data": map[string][]byte{"release": []byte(tt.content)}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Cluster.CoreV1().Secrets(r.Namespace).Patch(t.Context(), record, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			start, got := time.Now(), map[string]error{}
			_, got["install"] = r.Install("plain", rig.UseChart(chart("three"), nil))
			_, got["upgrade"] = r.Upgrade("plain", rig.UseChart(chart("three"), nil))
			_, got["rollback"] = r.Rollback(0)
			_, got["uninstall"] = r.Uninstall()
			_, got["upgrade --install"] = r.Upgrade("plain", rig.UseChart(chart("three"), func(d *kube.Deploy) { d.Install = true }))
			_, got["plan"] = r.Upgrade("plain", rig.UseChart(chart("three"), func(d *kube.Deploy) { d.PlanOnly = true }))
			_, got["recover"] = r.Client.Recover(t.Context(), r.Common())
			if tt.of == "v2" || tt.revisions == 1 {
				_, got["status"] = r.Client.PrepareView(t.Context(), "t", r.Namespace, 0)
			}
			for what, err := range got {
				if err == nil || !strings.Contains(err.Error(), "the release record "+record+" is damaged (it cannot be decoded); restore it") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if w := r.WrittenSince(start); len(w) > 0 {
				t.Errorf("written: %v", w)
			}
		})
	}
}
