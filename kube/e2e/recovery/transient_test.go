package recovery

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestEveryRequestFailsOnce fails each request of each operation the first time. The operation succeeds, and creates nothing
// twice (R53).
func TestEveryRequestFailsOnce(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(first func(*http.Request) bool) rig.Interceptor{
		"429": answerWith(func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}),
		"500":   answerWith(func(w http.ResponseWriter) { rig.InternalError(w) }),
		"503":   answerWith(func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }),
		"reset": answerWith(func(http.ResponseWriter) { panic(http.ErrAbortHandler) }),
		"response lost": func(first func(*http.Request) bool) rig.Interceptor {
			return rig.Interceptor{ModifyResponse: func(response *http.Response) error {
				if first(response.Request) {
					return errors.New("the response is lost")
				}
				return nil
			}}
		},
	}
	for name, kind := range kinds {
		if !rig.Long && name != "503" && name != "response lost" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			var mu sync.Mutex
			seen := map[string]bool{}
			r = r.WithClient(r.ConnectThrough(kind(func(req *http.Request) bool {
				mu.Lock()
				defer mu.Unlock()
				key := req.Method + req.URL.Path
				first := !seen[key]
				seen[key] = true
				return first
			}), ""))
			chart := func(v string) *charts.Chart {
				return rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a"), "v: "+v), rig.WithGenerateName(rig.ConfigMap("b-", rig.Group("b", "a"), "v: "+v)),
					rig.Job("hook", map[string]string{"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": "before-hook-creation"}, "0s"))
			}
			made := func() (n int) {
				for _, name := range r.ConfigMaps(r.Namespace) {
					if strings.HasPrefix(name, "b-") {
						n++
					}
				}
				return n
			}
			forget := func() {
				mu.Lock()
				defer mu.Unlock()
				clear(seen)
			}
			r.MustRun(r.Install("plain", rig.UseChart(chart("one"), nil)))
			if n := made(); n != 1 {
				t.Errorf("%d objects were created from one generateName", n)
			}
			forget()
			r.MustRun(r.Upgrade("plain", rig.UseChart(chart("two"), nil)))
			forget()
			r.MustRun(r.Rollback(1))
			if n := made(); n != 1 {
				t.Errorf("after the rollback there are %d objects from one generateName", n)
			}
			r.AssertHistory("1 superseded", "2 superseded", "3 deployed")
			forget()
			r.MustRun(r.Uninstall())
			if left := r.ConfigMaps(r.Namespace); r.Status() != "" || len(left) > 0 {
				t.Errorf("the release is %q, remaining: %v", r.Status(), left)
			}
		})
	}
}

// answerWith returns an interceptor that answers the first request of each kind itself.
func answerWith(how func(http.ResponseWriter)) func(first func(*http.Request) bool) rig.Interceptor {
	return func(first func(*http.Request) bool) rig.Interceptor {
		return rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
			if !first(req) {
				return false
			}
			how(w)
			return true
		}}
	}
}

// TestPersistentError answers the requests for one object with an error for longer than its readiness timeout. The object's
// events show the error, and the run fails with it (R53).
func TestPersistentError(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r = r.WithClient(r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
		return req.Method == http.MethodPatch && strings.HasSuffix(req.URL.Path, "/configmaps/a") && rig.InternalError(w)
	}}, ""))
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil)), func(i *kube.Deploy) { i.ReadinessTimeout = 2e9 }))
	out := r.MustFail(op, err, "made to fail")
	if !slices.ContainsFunc(out.Events, func(e event.Event) bool {
		return e.Kind == event.KindObject && e.Status == event.Applying && strings.Contains(e.Message, "retrying: 500") && strings.Contains(e.Message, "made to fail")
	}) {
		t.Error("no event of the object says why the request is retried")
	}
}
