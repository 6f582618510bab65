package upgrade

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestResumedInstall repeats a failed install after its missing dependency was created:
// applied objects are unchanged, the failed Job is retried, and the chart, which refuses
// upgrades, sees an install (R50).
func TestResumedInstall(t *testing.T) {
	layer := func(name, after string) map[string]string {
		m := map[string]string{"helm.sh/layer": name}
		if after != "" {
			m["helm.sh/dependson/layer"] = after
		}
		return m
	}
	lacks := strings.Replace(rig.Job("migrate", layer("two", "one"), "10ms", "  activeDeadlineSeconds: 6"), "restartPolicy", "serviceAccountName: later, restartPolicy", 1)
	chart := rig.ChartOf(t, `{{ if .Release.IsUpgrade }}{{ fail "not to be upgraded" }}{{ end }}`+rig.ConfigMap("a", layer("one", "")), lacks, rig.ConfigMap("last", layer("three", "two")))
	for command, prepare := range map[string]func(*rig.Rig) (*kube.Operation, error){
		"install": func(r *rig.Rig) (*kube.Operation, error) { return r.Install("plain", rig.UseChart(chart, nil)) },
		"upgrade --install": func(r *rig.Rig) (*kube.Operation, error) {
			return r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.Install = true }))
		},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			r := rig.NewNamed(t, "resumed-"+strings.ReplaceAll(command, " --", "-"))
			op, err := prepare(r)
			r.MustFail(op, err, "Job/migrate")
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "later"}}
			if _, err := r.Cluster.CoreV1().ServiceAccounts(r.Namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			lines, _ := r.Changes(prepare(r))
			if want := []string{"edge:one ConfigMap/a unchanged", "edge:two Job/migrate replace", "edge:three ConfigMap/last create"}; !slices.Equal(lines, want) {
				t.Errorf("the plan says %q, want %q", lines, want)
			}
			op, err = prepare(r)
			out := r.MustRun(op, err)
			r.AssertHistory("1 failed", "2 deployed")
			if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"a", "last"}) {
				t.Errorf("ConfigMaps: %v", got)
			}
			passed := func(e event.Event) bool {
				return e.Kind == event.KindGroup && e.Group == "edge:one" && e.Status == event.Ready && e.Message == "unchanged"
			}
			if !slices.ContainsFunc(out.Events, passed) || op.Info().Name != "install" {
				t.Errorf("in the %s the applied group does not count as unchanged: %v", op.Info().Name, out.Events)
			}
			if _, err := r.Install("plain", rig.UseChart(chart, nil)); err == nil || !strings.Contains(err.Error(), "in use") {
				t.Errorf("another install: %v, want the name to be in use", err)
			}
		})
	}
}
