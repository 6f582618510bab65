package stack

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/phrase"
	"lockstep/kube/e2e/rig"
)

// TestJobsDeletedByTTL: Jobs that the cluster deleted after they had finished are no reason to deploy a release again (S4,
// R22). A changed Job is one, and other missing objects are.
func TestJobsDeletedByTTL(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	const ttl = "  ttlSecondsAfterFinished: 0"
	job := func(name string, annotations map[string]string) string {
		return strings.ReplaceAll(rig.Job(name, annotations, "0s", ttl), "app:1.0", "{{ .Values.image | default \"app:1.0\" }}")
	}
	layer := map[string]string{"helm.sh/layer": "a"}
	dirs := []string{
		rig.MakeDir(t, rig.Files{"templates/all.yaml": job("hook", map[string]string{"helm.sh/hook": "pre-install,pre-upgrade"}) + "\n---\n" +
			rig.ConfigMap("t", nil, "v: v{{ .Values.data }}") + "\n---\n" + job("warm", nil)}),
		rig.MakeDir(t, rig.Files{"templates/all.yaml": job("migrate", layer) + "\n---\n" +
			rig.ConfigMap("u", map[string]string{"helm.sh/layer": "b", "helm.sh/dependson/layer": "a"})}),
	}
	releases := []release{{Name: "t", Dir: dirs[0]}, {Name: "u", Dir: dirs[1], Needs: []string{"t"}}}
	b.mustUp(releases...)
	collected := func() {
		t.Helper()
		for _, name := range []string{"warm", "migrate"} {
			b.Eventually("Job/"+name+" is deleted", func() bool {
				_, err := b.Cluster.BatchV1().Jobs(b.Namespace).Get(t.Context(), name, metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			})
		}
	}
	collected()
	again := time.Now()
	s, err := b.prepare(false, nil, releases...)
	if err != nil {
		t.Fatal(err)
	}
	for _, rel := range s.Releases() {
		if !rel.Unchanged {
			t.Errorf("the plan changes release %s", rel.ID)
		}
	}
	if state, _ := b.run(s, err, nil); state.Exit != 0 {
		t.Errorf("exit %d: %s", state.Exit, phrase.Reason(state))
	}
	if w := b.WrittenSince(again); len(w) > 0 {
		t.Errorf("an up without changes wrote %v", w)
	}
	if got := b.history("t", "u"); got[0] != "t 1 deployed" || got[1] != "u 1 deployed" {
		t.Errorf("history %v", got)
	}

	// While t changes, u is unchanged and is compared again.
	releases[0].Values = map[string]any{"data": 2}
	again = time.Now()
	b.mustUp(releases...)
	if got := b.history("t", "u"); got[0] != "t 2 deployed" || got[1] != "u 1 deployed" {
		t.Errorf("history after a change of the other release %v", got)
	}
	for _, w := range b.WrittenSince(again) {
		if strings.Contains(w, "migrate") || strings.Contains(w, "/configmaps/u") {
			t.Errorf("a change of t wrote %s", w)
		}
	}

	collected()
	releases[1].Values = map[string]any{"image": "app:2.0"}
	b.mustUp(releases...)
	if got := b.history("t", "u"); got[0] != "t 2 deployed" || got[1] != "u 2 deployed" {
		t.Errorf("history after a change of a Job %v", got)
	}
	collected()
	if err := b.Cluster.CoreV1().ConfigMaps(b.Namespace).Delete(t.Context(), "t", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.mustUp(releases...)
	if got := b.history("t", "u"); got[0] != "t 3 deployed" || got[1] != "u 2 deployed" {
		t.Errorf("history after a ConfigMap was deleted %v", got)
	}
}
