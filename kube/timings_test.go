package kube

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// timings are those of a revision, 0 for the last, by phase and group.
func (r *rig) timings(revision int) map[string]Timing {
	r.t.Helper()
	v, err := r.client.PrepareView(r.t.Context(), "t", r.namespace, revision)
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]Timing{}
	for _, x := range v.Timings() {
		out[x.Phase+" "+x.Group] = x
	}
	return out
}

// TestTimings are kept with each revision: of the operation that made it, of a
// failed one, too, and of a rollback; never those of another revision.
func TestTimings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	slow := func(delay, image string) string {
		return strings.Replace(deployment("slow", group("a"), delay), "example/app:1.0", image, 1)
	}
	start := time.Now()
	r.deploy("plain", use(one(t, slow("1s", "example/app:1.0"), configMap("after", group("b", "a"))), nil))
	first := r.timings(0)
	a, b := first["apply edge:a"], first["apply edge:b"]
	if len(first) != 2 || a.Status != event.Ready || a.Took < time.Second || b.Started.Before(a.Started.Add(a.Took)) || a.Started.Before(start) || time.Now().Before(b.Started.Add(b.Took)) {
		t.Errorf("timings %+v", first)
	}

	op, err := r.upgrade("plain", useUp(one(t, slow("1s", "example/no-such-image:1"), configMap("after", group("b", "a"))), func(u *Upgrade) {
		u.RollbackOnFailure, u.ReadinessTimeout = true, 2*time.Second
	}))
	if err != nil {
		t.Fatal(err)
	}
	if out := r.run(op, nil); out.state.Exit != 1 {
		t.Fatalf("exit %d: %s", out.state.Exit, out.state.Message)
	}
	second, third := r.timings(2), r.timings(3)
	if len(second) != 1 || second["apply edge:a"].Status != event.Failed {
		t.Errorf("timings of the failed upgrade %+v", second)
	}
	if len(third) != 2 || third["apply edge:a"].Status != event.Ready || !third["apply edge:a"].Started.After(second["apply edge:a"].Started) {
		t.Errorf("timings of its rollback %+v", third)
	}

	back := action.NewRollback(r.helm())
	back.Version, back.WaitStrategy, back.ServerSideApply = 1, helmkube.HookOnlyStrategy, "auto"
	if err := back.Run("t"); err != nil {
		t.Fatal(err)
	}
	if got := r.timings(0); len(got) != 0 {
		t.Errorf("timings of a rollback by Helm: %+v", got)
	}
	if got := r.timings(1); len(got) != 2 {
		t.Errorf("the first revision's timings are lost: %+v", got)
	}
}

// TestTimingsTooLarge deploys a release that has room for its record, but not
// for its timings: it does without them (R28).
func TestTimingsTooLarge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	groups := "{{- range $i := until 300 }}\n---\n" + strings.ReplaceAll(configMap("c-NUMBER", map[string]string{plan.AnnotationGroup: "g-NUMBER", plan.AnnotationGroupDependsOn: "AFTER"}),
		"NUMBER", "{{ $i }}") + "\n{{- end }}\n"
	groups = strings.ReplaceAll(groups, `"AFTER"`, `'{{ if $i }}["g-{{ sub $i 1 }}"]{{ else }}[]{{ end }}'`)
	noise := make([]byte, 1<<20)
	_, _ = rand.Read(noise)
	text := hex.EncodeToString(noise)
	// As much as fits: found by halving, since how well it packs is not known.
	fits, not := 0, len(text)
	var op *Operation
	for not-fits > 512 {
		size := (fits + not) / 2
		c := makeChart(t, files{"templates/all.yaml": groups, "noise": text[:size]})
		if try, err := r.install("plain", use(c, nil)); err != nil || len(try.Warnings()) > 0 {
			not = size
		} else {
			fits, op = size, try
		}
	}
	r.mustRun(op, nil)
	if got := r.timings(0); len(got) != 0 {
		t.Errorf("%d timings fit: the test tests nothing", len(got))
	}
	r.mustRun(r.uninstall())
}
