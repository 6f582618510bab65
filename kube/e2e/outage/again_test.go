package outage

import (
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// twice answers the first two requests of each key with answer.
type twice struct {
	key    func(*http.Request) string // "" for requests that are passed on
	answer func(http.ResponseWriter)
	mu     sync.Mutex
	seen   map[string]int
}

func (a *twice) intercept(w http.ResponseWriter, r *http.Request) bool {
	key := a.key(r)
	if key == "" {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil {
		a.seen = map[string]int{}
	}
	if a.seen[key]++; a.seen[key] > 2 {
		return false
	}
	a.answer(w)
	return true
}

// expect expects that requests of each key were sent again.
func (a *twice) expect(t *testing.T, keys ...string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range keys {
		if a.seen[key] < 3 {
			t.Errorf("%s: %d requests, want more than 2: %v", key, a.seen[key], a.seen)
		}
	}
}

// TestQuotaConflicts: many requests charge a quota at once, so the API server asks for each write again: objects, hooks, records and
// the lock, also those of a rollback after a failure, are written in the end (R53, R33).
func TestQuotaConflicts(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	conflicts := twice{
		key: func(req *http.Request) string {
			if req.Method == http.MethodGet || req.Method == http.MethodDelete || req.URL.Query().Has("dryRun") || strings.Contains(req.URL.Path, "/authorization.k8s.io/") {
				return ""
			}
			return req.Method + " " + path.Base(req.URL.Path)
		},
		answer: func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(map[string]any{
				"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure", "code": http.StatusConflict, "reason": "Conflict",
				"message": `Operation cannot be fulfilled on resourcequotas "q": the object has been modified; please apply your changes to the latest version and try again`,
				"details": map[string]any{"name": "q", "kind": "resourcequotas"},
			})
		},
	}
	r.Client = r.ConnectThrough(rig.Interceptor{Intercept: conflicts.intercept}, "")
	hook := rig.Job("prepare", map[string]string{"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": "before-hook-creation"}, "100ms")
	chart := func(v string, more ...string) func(*kube.Deploy) {
		docs := append([]string{rig.ConfigMap("a", rig.Group("a"), "v: "+v), hook}, more...)
		return rig.UseChart(rig.ChartOf(t, docs...), func(d *kube.Deploy) {
			d.Timeout, d.ReadinessTimeout, d.RollbackOnFailure = 2*time.Minute, 20*time.Second, true
		})
	}
	r.MustRun(r.Install("plain", chart("one")))
	conflicts.expect(t, "POST leases", "POST secrets", "PUT sh.helm.release.v1.t.v1", "PATCH a", "PATCH prepare")
	conflicts.mu.Lock()
	conflicts.seen = nil
	conflicts.mu.Unlock()
	op := r.Must(r.Upgrade("plain", chart("two", rig.Deployment("web", rig.Impatient(rig.Group("b", "a")), "1h"))))
	out := r.Run(op, func(e event.Event) { // the records of the rollback, too
		if e.Kind == event.KindGroup && e.Group == "edge:b" && e.Status == event.Failed {
			conflicts.mu.Lock()
			conflicts.seen = nil
			conflicts.mu.Unlock()
		}
	})
	if out.State.Exit != 1 || !strings.Contains(out.State.Message, "rolled back to revision 1") {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	conflicts.expect(t, "POST secrets", "PATCH a")
	r.AssertHistory("1 superseded", "2 failed", "3 deployed")
}

// TestNotYetServed: a run has created a CRD, and another API server of the cluster does not know the kind yet. It is waited for,
// wherever the definition comes from (R53, R29).
func TestNotYetServed(t *testing.T) {
	for _, from := range []string{"crds", "template", "earlier release"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			gear := rig.LateKind{Kind: "Gear", Plural: "gears", Scope: "Namespaced", API: r.Namespace + ".example"}
			var mu sync.Mutex
			var applied time.Time // for the first time
			r.Client = r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
				if !strings.Contains(req.URL.Path, "/"+gear.API+"/v1/namespaces/") {
					return false
				}
				mu.Lock()
				defer mu.Unlock()
				if applied.IsZero() && req.Method == http.MethodPatch {
					applied = time.Now()
				}
				if applied.IsZero() || time.Since(applied) > 1500*time.Millisecond {
					return false
				}
				http.Error(w, "404 page not found", http.StatusNotFound)
				return true
			}}, "")
			files := rig.Files{"templates/gear.yaml": gear.Object(rig.Group("b", "a")), "templates/a.yaml": rig.ConfigMap("a", rig.Group("a"))}
			switch from {
			case "crds":
				files["crds/gear.yaml"] = gear.CRD(nil)
			case "template":
				files["templates/crd.yaml"] = gear.CRD(rig.Group("a"))
			case "earlier release":
				r.MustRun(r.Install("plain", func(d *kube.Deploy) {
					rig.UseChart(rig.ChartOf(t, gear.CRD(nil)), nil)(d)
					d.Release = "earlier"
				}))
			}
			r.MustRun(r.Install("plain", rig.UseChart(rig.MakeChart(t, files), func(d *kube.Deploy) { d.Timeout = time.Minute })))
			if applied.IsZero() {
				t.Error("no request failed")
			}
		})
	}
}
