package outage

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

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
