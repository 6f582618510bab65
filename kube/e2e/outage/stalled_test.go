package outage

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// stalledBody delivers nothing until the client has gone.
type stalledBody struct{ ctx context.Context }

func (b stalledBody) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

func (b stalledBody) Close() error { return nil }

// TestStalledWatch: the watch of Deployments delivers nothing, while the API server responds to everything else. What is ready
// or gone when its readiness timeout has passed fails nothing (R25).
func TestStalledWatch(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Client = r.ConnectThrough(rig.Interceptor{ModifyResponse: func(resp *http.Response) error {
		if q := resp.Request.URL; q.Query().Has("watch") && strings.HasSuffix(q.Path, "/deployments") {
			resp.Body = stalledBody{resp.Request.Context()}
		}
		return nil
	}}, "")
	chart := rig.ChartOf(t, rig.Deployment("db", rig.Group("db"), "1s"), rig.ConfigMap("after", rig.Group("after", "db")))
	r.MustRun(r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.ReadinessTimeout = 8 * time.Second })))
	u := kube.Uninstall{Common: r.Common()}
	u.ReadinessTimeout = 8 * time.Second
	r.MustRun(r.Client.PrepareUninstall(t.Context(), u))
	if left := r.Labelled(); len(left) > 0 {
		t.Errorf("not removed: %v", left)
	}
}

// TestUnansweredWatches: a proxy holds the responses to all watches, longer than the run lasts. It neither takes the API server for
// unreachable nor waits until a timeout for what is ready (R53, R25).
func TestUnansweredWatches(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Client = r.ConnectThrough(rig.Interceptor{Intercept: func(_ http.ResponseWriter, req *http.Request) bool {
		watches := req.URL.Query().Has("watch")
		if watches {
			<-req.Context().Done()
		}
		return watches
	}}, "")
	op := r.Must(r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.Deployment("db", nil, "1s")), func(i *kube.Deploy) { i.Timeout = time.Minute })))
	start := time.Now()
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindServer {
			t.Errorf("%s: %s", e.Kind, e.Message)
		}
	})
	if took := time.Since(start); out.State.Exit != 0 || took > 45*time.Second {
		t.Errorf("exit %d after %s: %s", out.State.Exit, took, out.State.Message)
	}
	r.AssertHistory("1 deployed")
}
