package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
)

// TestCleanupOnFail deletes what a failed upgrade has created, and nothing that
// was there before it.
func TestCleanupOnFail(t *testing.T) {
	t.Parallel()
	for _, cleanup := range []bool{true, false} {
		t.Run(fmt.Sprint(cleanup), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deploy("plain", use(one(t, configMap("old", group("one")), configMap("gone", group("two", "one"))), nil))
			broken := strings.ReplaceAll(deployment("broken", group("three", "two"), "0s"), "example/app:1.0", "example/no-such-image:1")
			next := one(t, configMap("old", group("one"), "v: new"), configMap("first", group("two", "one")), broken, configMap("never", group("four", "three")))
			op, err := r.upgrade("plain", useUp(next, func(u *Upgrade) { u.CleanupOnFail, u.ReadinessTimeout = cleanup, 2*time.Second }))
			r.mustFail(op, err, "Deployment/broken", "never started: edge:four")
			r.assertHistory("1 deployed", "2 failed")
			want := []string{"ConfigMap/gone", "ConfigMap/old"}
			if !cleanup {
				want = []string{"Deployment/broken", "ConfigMap/first", "ConfigMap/gone", "ConfigMap/old"}
			}
			if got := r.left(); !slices.Equal(got, want) {
				t.Errorf("left are %v, want %v", got, want)
			}
			if got := r.data("old")["v"]; got != "new" {
				t.Errorf("old has v: %s, want what the failed upgrade brought", got)
			}
		})
	}
}

// TestCleanupAfterTheTimeout is not done, since nothing is started any more, and
// the end names what is left behind.
func TestCleanupAfterTheTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("old", nil)), nil))
	broken := strings.ReplaceAll(deployment("broken", group("one"), "0s"), "example/app:1.0", "example/no-such-image:1")
	next := one(t, configMap("old", nil), broken, configMap("never", group("two", "one")))
	op, err := r.upgrade("plain", useUp(next, func(u *Upgrade) { u.CleanupOnFail, u.Timeout = true, 8*time.Second }))
	r.mustFail(op, err, "--timeout", "not all that was created could be deleted again", "left behind: Deployment/broken")
	if got := r.left(); !slices.Equal(got, []string{"Deployment/broken", "ConfigMap/old"}) {
		t.Errorf("left are %v", got)
	}
}

// TestCleanupInTurn deletes what a failed upgrade has created in reverse order
// of the new plan, each group only after all that waited for it is gone (R31).
func TestCleanupInTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("old", group("one"))), nil))
	// second stays until the test lets it go.
	second := strings.Replace(configMap("second", group("three", "two")), "metadata:\n", "metadata:\n  finalizers: [example.com/held]\n", 1)
	broken := strings.ReplaceAll(deployment("broken", group("four", "three"), "0s"), "example/app:1.0", "example/no-such-image:1")
	next := one(t, configMap("old", group("one")), generated(configMap("made-", group("one"))), configMap("first", group("two", "one")), second, broken, configMap("never", group("five", "four")))
	op, err := r.upgrade("plain", useUp(next, func(u *Upgrade) { u.CleanupOnFail, u.ReadinessTimeout = true, 2*time.Second }))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	out := r.run(op, func(e event.Event) {
		if e.Kind == event.KindObject && e.Object.Name == "second" && strings.Contains(e.Message, "example.com/held") {
			r.patchConfigMap("second", `{"metadata":{"finalizers":null}}`)
		}
	})
	if out.state.Exit != 1 || !strings.Contains(out.state.Message, "Deployment/broken") {
		t.Errorf("exit %d: %s", out.state.Exit, out.state.Message)
	}
	if got := r.left(); !slices.Equal(got, []string{"ConfigMap/old"}) {
		t.Errorf("left are %v, want what was there before", got)
	}
	tl := r.timeline("lockstep").since(start)
	gone, _ := tl.firstDelete(t, []string{"Deployment/broken"})
	asked, _ := tl.firstDelete(t, []string{"ConfigMap/second"})
	first, _ := tl.firstDelete(t, []string{"ConfigMap/first"})
	var let time.Time
	for _, e := range tl.of(t, "ConfigMap/second") {
		if e.UserAgent == "test" {
			let = e.Received
		}
	}
	if !slices.IsSortedFunc([]time.Time{gone, asked, let, first}, time.Time.Compare) || let.IsZero() {
		t.Errorf("broken was deleted at %s, second at %s, which was let go at %s, first at %s", clock(gone), clock(asked), clock(let), clock(first))
	}
}
