package recovery

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestLateRecordWrite stops an upgrade while the request that creates its record is delayed. lockstep does not find the
// record and writes it as failed, so the late request fails, and no revision stays pending (R34).
func TestLateRecordWrite(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", nil)
	const record = "sh.helm.release.v1.t.v2"
	r.TakesOver = []string{"secrets/" + record} // the delayed request
	var sent, looked sync.Once
	var body atomic.Value // of the delayed request
	var op *kube.Operation
	late := func() {
		var secret corev1.Secret
		if err := json.Unmarshal(body.Load().([]byte), &secret); err != nil {
			t.Error(err)
		}
		// The history shows whether it was refused.
		_, _ = r.Cluster.CoreV1().Secrets(r.Namespace).Create(t.Context(), &secret, metav1.CreateOptions{})
	}
	c := r.ConnectThrough(rig.Interceptor{
		Intercept: func(_ http.ResponseWriter, req *http.Request) (held bool) {
			if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/secrets") {
				return false
			}
			sent.Do(func() {
				held = true
				content, err := io.ReadAll(req.Body)
				if err != nil {
					t.Error(err)
				}
				body.Store(content)
				op.Command(event.Command{Name: event.Stop})
				<-req.Context().Done()
			})
			return held
		},
		ModifyResponse: func(response *http.Response) error {
			if strings.HasSuffix(response.Request.URL.Path, record) && response.StatusCode == http.StatusNotFound && body.Load() != nil {
				looked.Do(late)
			}
			return nil
		},
	}, "")
	var err error
	if op, err = r.WithClient(c).Upgrade("plain", nil); err != nil {
		t.Fatal(err)
	}
	if out := r.Run(op, nil); out.Err == nil || out.State.Release != "failed" {
		t.Errorf("the upgrade returned %v and reports the release status %q, want an error and failed", out.Err, out.State.Release)
	}
	r.AssertHistory("1 deployed", "2 failed")
}
