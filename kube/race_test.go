package kube

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
)

// TestTwoAtOnce runs an operation in the middle of another one on the same
// release, for which it was prepared before that had begun: it writes nothing,
// and above all rolls nothing back (R33, R34).
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	chart := one(t, deployment("slow", group("a"), "1500ms"), configMap("after", group("b", "a")))
	for _, operation := range []string{"install", "upgrade", "rollback"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			other := &rig{t: t, namespace: r.namespace, client: connect(t, r.namespace), cluster: r.cluster}
			switch operation {
			case "rollback":
				r.deploy("plain", use(chart, nil))
				fallthrough
			case "upgrade":
				op, err := r.upgrade("plain", useUp(one(t, configMap("before", nil)), func(u *Upgrade) { u.Install = true }))
				r.mustRun(op, err)
			}
			prepare := func(r *rig) *Operation {
				t.Helper()
				var op *Operation
				var err error
				switch operation {
				case "install":
					op, err = r.install("plain", use(chart, func(i *Install) { i.RollbackOnFailure = true }))
				case "upgrade":
					op, err = r.upgrade("plain", useUp(chart, func(u *Upgrade) { u.RollbackOnFailure = true }))
				case "rollback":
					op, err = r.rollback(1)
				}
				if err != nil {
					t.Fatal(err)
				}
				return op
			}
			first, second := prepare(r), prepare(other)
			var late outcome
			out := r.run(first, func(e event.Event) {
				if e.Kind == event.KindObject && e.Object.Name == "slow" && e.Change != "" {
					late = other.run(second, nil)
				}
			})
			if late.err == nil || late.state.Exit != 2 || late.state.Status != event.Failed || !strings.Contains(late.state.Message, "nothing was written") {
				t.Errorf("the second one: %v, exit %d: %s", late.err, late.state.Exit, late.state.Message)
			}
			if out.err != nil || out.state.Exit != 0 || out.state.Release != "deployed" {
				t.Errorf("the first one: %v, exit %d, release %s", out.err, out.state.Exit, out.state.Release)
			}
			if left := r.left(); !slices.Contains(left, "Deployment/slow") || !slices.Contains(left, "ConfigMap/after") {
				t.Errorf("left are %v", left)
			}
			if r.status() != rcommon.StatusDeployed {
				t.Errorf("the release is %s", r.status())
			}
		})
	}
}

// TestUninstalledMeanwhile tells that the release of an upgrade is gone, and
// claims nothing of it.
func TestUninstalledMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("before", nil)), nil))
	op, err := r.upgrade("plain", useUp(one(t, deployment("slow", group("a"), "1h"), configMap("after", group("b", "a"))), func(u *Upgrade) { u.ReadinessTimeout = 3 * time.Second }))
	if err != nil {
		t.Fatal(err)
	}
	out := r.run(op, func(e event.Event) {
		if e.Kind == event.KindObject && e.Object.Name == "slow" && e.Change == event.Created {
			u := action.NewUninstall(r.helm())
			u.WaitStrategy = helmkube.HookOnlyStrategy
			if _, err := u.Run("t"); err != nil {
				t.Error(err)
			}
		}
	})
	if out.state.Exit != 1 || out.state.Release != event.NoRelease || !strings.Contains(out.state.Message, "somebody else has uninstalled it") {
		t.Errorf("exit %d, release %q: %s", out.state.Exit, out.state.Release, out.state.Message)
	}
}

// TestWhatIsSaidOfTheRelease compares what the end of a failed operation says
// of the release with what Helm's record says (R34).
func TestWhatIsSaidOfTheRelease(t *testing.T) {
	t.Parallel()
	fails := func(event string) string {
		text := job("hook", map[string]string{"helm.sh/hook": event}, "100ms", "  backoffLimit: 0")
		return strings.Replace(text, "{sandbox/run-duration: 100ms}", `{sandbox/run-duration: 100ms, sandbox/exit-code: "1"}`, 1)
	}
	tests := map[string]struct{ says, release string }{
		"pre-install": {"the release is marked failed", "failed"}, "post-upgrade": {"the release is marked failed", "failed"},
		"pre-delete": {"the release is marked failed", "failed"}, "post-delete": {"the release is gone", event.NoRelease},
	}
	for when, tt := range tests {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			chart := one(t, configMap("a", nil), fails(when))
			op, err := r.install("plain", use(chart, nil))
			if when != "pre-install" {
				r.mustRun(op, err)
				if op, err = r.upgrade("plain", useUp(chart, nil)); strings.HasSuffix(when, "-delete") {
					op, err = r.uninstall()
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			out := r.run(op, nil)
			if out.state.Exit != 1 || !strings.Contains(out.state.Message, tt.says+":") || out.state.Release != tt.release {
				t.Errorf("exit %d, release %q: %s", out.state.Exit, out.state.Release, out.state.Message)
			}
			if got := r.status(); string(got) != strings.Replace(tt.release, event.NoRelease, "", 1) {
				t.Errorf("the record says %q, want %q", got, tt.release)
			}
			// A hook that failed stays, by Helm's default policy: its log says why.
			if _, err := r.cluster.BatchV1().Jobs(r.namespace).Get(t.Context(), "hook", metav1.GetOptions{}); err != nil {
				t.Errorf("the hook that failed: %v", err)
			}
		})
	}
}

// TestUninstallOfWhatIsGone goes through all groups, with hooks around them,
// where objects are gone already (R31).
func TestUninstallOfWhatIsGone(t *testing.T) {
	t.Parallel()
	for _, gone := range [][]string{{"a"}, {"b"}, {"a", "b"}} {
		t.Run(strings.Join(gone, ""), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy("plain", use(one(t, configMap("a", group("a")), configMap("b", group("b", "a")), job("hook", map[string]string{"helm.sh/hook": "post-delete"}, "0s")), nil))
			for _, name := range gone {
				if err := r.cluster.CoreV1().ConfigMaps(r.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			out := r.mustRun(r.uninstall())
			for _, p := range out.state.Phases {
				for _, g := range p.Groups {
					if !g.Status.Over() {
						t.Errorf("%s of %s is %s in the end", g.ID, p.Name, g.Status)
					}
					for _, o := range g.Objects {
						if p.Kind == event.PhaseRemove && (o.Change == event.Absent) != slices.Contains(gone, o.Object.Name) {
							t.Errorf("%s was %q", o.Object, o.Change)
						}
					}
				}
			}
			if ended := out.ended(); !slices.Equal(ended, []string{"edge:b", "edge:a", "post-delete:Job/hook"}) {
				t.Errorf("ended %v", ended)
			}
		})
	}
}

// TestUninstallOfHistory forgets a release whose objects were removed before,
// and runs nothing.
func TestUninstallOfHistory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", nil)
	r.mustRun(r.client.PrepareUninstall(t.Context(), Uninstall{Common: Common{Release: "t", Namespace: r.namespace}, KeepHistory: true}))
	op, err := r.uninstall()
	if out := r.mustRun(op, err); len(out.state.Phases) > 0 || out.state.Release != event.NoRelease {
		t.Errorf("phases %v, release %q", out.state.Phases, out.state.Release)
	}
	if r.status() != "" {
		t.Errorf("the release is %s", r.status())
	}
}

// TestUninstallWithoutWaiting asks for the deletion of everything and waits for
// none of it (R27).
func TestUninstallWithoutWaiting(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, strings.Replace(configMap("held", nil), "metadata:\n", "metadata:\n  finalizers: [example.com/held]\n", 1), configMap("a", nil)), nil))
	t.Cleanup(func() {
		_, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Patch(context.Background(), "held", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	r.mustRun(r.client.PrepareUninstall(t.Context(), Uninstall{Common: Common{Release: "t", Namespace: r.namespace, Wait: "hookOnly"}}))
	if r.status() != "" {
		t.Errorf("the release is %s", r.status())
	}
	held, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Get(t.Context(), "held", metav1.GetOptions{})
	if err != nil || held.DeletionTimestamp == nil {
		t.Errorf("held should be waiting for its finalizer: %v", err)
	}
	if _, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a: %v", err)
	}
}
