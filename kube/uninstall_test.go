package kube

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
)

// TestGoneBeforeItsDeletion has an object deleted by somebody else: before its
// group's turn, and while it is waited for (R31).
func TestGoneBeforeItsDeletion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("first", group("a")), configMap("second", group("b", "a"))), nil))
	r.patchConfigMap("second", `{"metadata":{"finalizers":["example.com/slow"]}}`)
	op, err := r.uninstall()
	if err != nil {
		t.Fatal(err)
	}
	done := false
	out := r.run(op, func(e event.Event) {
		if !done && e.Kind == event.KindObject && e.Status == event.Deleting && e.Object.Name == "second" {
			done = true
			if err := r.cluster.CoreV1().ConfigMaps(r.namespace).Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			r.patchConfigMap("second", `{"metadata":{"finalizers":null}}`)
		}
	})
	if !done || out.err != nil || out.state.Exit != 0 {
		t.Fatalf("%v, exit %d: %v", done, out.state.Exit, out.err)
	}
	absent := slices.ContainsFunc(out.events, func(e event.Event) bool {
		return e.Kind == event.KindObject && e.Object.Name == "first" && e.Status == event.Gone && e.Change == event.Absent
	})
	if !absent || r.status() != "" {
		t.Errorf("first was found absent: %v; release %q", absent, r.status())
	}
}

// TestFinalizerThatNeverEnds names the object and the finalizer, and leaves the
// release failed, not uninstalling (R34).
func TestFinalizerThatNeverEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("free", group("a")), configMap("kept", group("b", "a"))), nil))
	r.patchConfigMap("kept", `{"metadata":{"finalizers":["example.com/forever"]}}`)
	t.Cleanup(func() {
		_, _ = r.cluster.CoreV1().ConfigMaps(r.namespace).Patch(t.Context(), "kept", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
	op, err := r.client.PrepareUninstall(t.Context(), Uninstall{Common: Common{Release: "t", Namespace: r.namespace, Timeout: 6 * time.Second}})
	r.mustFail(op, err, "ConfigMap/kept", "example.com/forever", "--timeout", "never started: edge:a")
	// R25: the time for one object, where it is given, ends the wait before the operation's.
	op, err = r.client.PrepareUninstall(t.Context(), Uninstall{Common: Common{Release: "t", Namespace: r.namespace, ReadinessTimeout: time.Second}})
	r.mustFail(op, err, "ConfigMap/kept", "gave up after 1s (--readiness-timeout)", "example.com/forever", "never started: edge:a")
	if got := r.configMaps(r.namespace); !slices.Equal(got, []string{"free", "kept"}) {
		t.Errorf("left are %v, want both", got)
	}
	// Once the finalizer is gone, the same command finishes.
	r.patchConfigMap("kept", `{"metadata":{"finalizers":null}}`)
	r.mustRun(r.uninstall())
	if got := r.configMaps(r.namespace); len(got) > 0 || r.status() != "" {
		t.Errorf("left are %v, release %q", got, r.status())
	}
}

// TestUninstallInReverse proves for every chart that a group is deleted only
// after all that waited for it (R31), and that nothing is left.
func TestUninstallInReverse(t *testing.T) {
	t.Parallel()
	for _, chart := range installable(t) {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy(chart, nil)
			tl := r.timeline("lockstep") // while the chart's kinds are known
			start := time.Now()
			r.mustRun(r.uninstall())
			tl.events = r.audit()
			tl = tl.since(start)
			groups := oracle(t, chart, r.namespace)
			for id, g := range groups {
				last, name := tl.deleted(t, g.objects)
				for _, gate := range g.gates {
					first, by := tl.firstDelete(t, groups[gate].objects)
					if !first.IsZero() && first.Before(last) {
						t.Errorf("%s of %s was deleted at %s, before %s of %s was at %s", by, gate, clock(first), name, id, clock(last))
					}
				}
			}
			if st := r.status(); st != "" {
				t.Errorf("the release is still there: %s", st)
			}
			if left := r.labelled(); len(left) > 0 {
				t.Errorf("left: %v", left)
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
