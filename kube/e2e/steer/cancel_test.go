package steer

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// requestHolder forwards some requests and never answers later ones.
type requestHolder struct {
	after int32  // the number of requests to forward
	path  string // part of the paths of the requests to count and hold
	seen  atomic.Int32
	once  sync.Once
	held  chan struct{} // closed when the first request is held
	end   chan struct{}
}

// holdRequests returns a holder for requests with path in their path, and a connection through it.
func holdRequests(r *rig.Rig, path string, after int32) (*requestHolder, *kube.Client) {
	h := &requestHolder{after: after, path: path, held: make(chan struct{}), end: make(chan struct{})}
	c := r.ConnectThrough(rig.Interceptor{Intercept: h.intercept}, "")
	r.T.Cleanup(func() { close(h.end) })
	return h, c
}

func (h *requestHolder) intercept(_ http.ResponseWriter, req *http.Request) bool {
	if !strings.Contains(req.URL.Path, h.path) || h.seen.Add(1) <= atomic.LoadInt32(&h.after) {
		return false
	}
	h.once.Do(func() { close(h.held) })
	select {
	case <-h.end:
	case <-req.Context().Done():
	}
	return true
}

// patience limits calls that should end at once, so that a failing test does not hang.
const patience = 20 * time.Second

// TestCancelEndsPreparation: the API server does not respond one request of a preparation. Cancelling the context ends the
// preparation with an error (R53).
func TestCancelEndsPreparation(t *testing.T) {
	t.Parallel()
	chart := func(t *testing.T) func(*kube.Deploy) {
		return rig.UseChart(rig.MakeChart(t, rig.Files{"crds/gear.yaml": rig.LateKind{Kind: "Gear", Plural: "gears", Scope: "Namespaced", API: "cancel.example"}.CRD(nil),
			"templates/all.yaml": strings.Join([]string{rig.ConfigMap("a", rig.Group("a")), rig.WithGenerateName(rig.ConfigMap("b-", rig.Group("b", "a"))), rig.Job("hook", map[string]string{"helm.sh/hook": "test"}, "0s")}, "\n---\n")}), nil)
	}
	common := func(r *rig.Rig) kube.Common { return kube.Common{Release: "t", Namespace: r.Namespace} }
	calls := map[string]func(context.Context, *rig.Rig, *kube.Client) error{
		"install": func(ctx context.Context, r *rig.Rig, c *kube.Client) error {
			in := kube.Deploy{Common: kube.Common{Release: "other", Namespace: r.Namespace}}
			chart(r.T)(&in)
			in.TakeOwnership = true
			_, err := c.PrepareInstall(ctx, in)
			return err
		},
		"upgrade": func(ctx context.Context, r *rig.Rig, c *kube.Client) error {
			up := kube.Deploy{Common: common(r)}
			in := kube.Deploy{}
			chart(r.T)(&in)
			up.ChartOptions = in.ChartOptions
			up.CRDs = kube.CRDsUpgrade
			_, err := c.PrepareUpgrade(ctx, up)
			return err
		},
		"rollback": func(ctx context.Context, r *rig.Rig, c *kube.Client) error {
			_, err := c.PrepareRollback(ctx, kube.Rollback{Common: common(r), Revision: 1})
			return err
		},
		"uninstall": func(ctx context.Context, r *rig.Rig, c *kube.Client) error {
			_, err := c.PrepareUninstall(ctx, kube.Uninstall{Common: common(r)})
			return err
		},
		"test": func(ctx context.Context, r *rig.Rig, c *kube.Client) error {
			_, err := c.PrepareTest(ctx, kube.ReleaseTest{Common: common(r)})
			return err
		},
		"view": func(ctx context.Context, r *rig.Rig, c *kube.Client) error {
			_, err := c.PrepareView(ctx, "t", r.Namespace, 0)
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.MustRun(r.Install("plain", chart(t)))
			r.MustRun(r.Upgrade("plain", func(u *kube.Deploy) {
				in := kube.Deploy{}
				chart(t)(&in)
				u.ChartOptions = in.ChartOptions
			}))
			for n := int32(0); ; n++ {
				h, c := holdRequests(r, "", n)
				ctx, cancel := context.WithCancel(t.Context())
				returned := make(chan error, 1)
				go func() { returned <- call(ctx, r, c) }()
				select {
				case err := <-returned: // it sends no more than n requests
					cancel()
					if err != nil || n < 3 {
						t.Errorf("the call returned after %d requests: %v", n, err)
					}
					return
				case <-h.held:
				}
				cancel()
				select {
				case err := <-returned:
					if err == nil {
						t.Errorf("no error although request %d was not answered", n+1)
					}
				case <-time.After(patience):
					t.Fatalf("request %d blocks the call for more than %s", n+1, patience)
				}
			}
		})
	}
}

// TestCancelEndsAView: the API server stops answering during a view. Cancelling the context
// ends the view (R53).
func TestCancelEndsAView(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil)), nil))
	h, c := holdRequests(r, "/secrets", 1<<30) // a view reads the release records from time to time
	view, err := c.PrepareView(t.Context(), "t", r.Namespace, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- view.Run(ctx) }()
	select {
	case <-view.Seen():
	case <-time.After(patience):
		t.Fatal("the view has not seen all objects")
	}
	atomic.StoreInt32(&h.after, 0)
	<-h.held
	cancel()
	select {
	case err := <-over:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatalf("a request blocks the view for more than %s", patience)
	}
}
