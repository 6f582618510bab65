package cli

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep/kube/throwaway/faultproxy"
	"lockstep/kube/throwaway/testcluster"
)

// TestReadsAreRetried: the commands that print what Helm prints wait out what is temporary, too (R53).
func TestReadsAreRetried(t *testing.T) {
	t.Parallel()
	const ns = "read-faults"
	m := newMachine(t)
	m.run(0, "install", "r", filepath.Join(data, "charts", "plain"), "-n", ns, "--create-namespace", "--no-tui")
	var left atomic.Int32
	var fail func(http.ResponseWriter, *http.Request)
	front, err := faultproxy.New(faultproxy.Options{Kubeconfig: testcluster.Get(t).Kubeconfig, Intercept: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/secrets") && left.Add(-1) >= 0 {
			fail(w, r)
			return
		}
		next.ServeHTTP(w, r)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(front.Close)
	m.env[0] = "KUBECONFIG=" + filepath.Join(t.TempDir(), "kubeconfig")
	if err := front.WriteKubeconfig(strings.TrimPrefix(m.env[0], "KUBECONFIG="), ns); err != nil {
		t.Fatal(err)
	}
	for cause, f := range map[string]func(http.ResponseWriter, *http.Request){
		"503": func(w http.ResponseWriter, _ *http.Request) {
			faultproxy.Refuse(w, 503, "ServiceUnavailable", "starting")
		},
		"500": func(w http.ResponseWriter, _ *http.Request) {
			faultproxy.Refuse(w, 500, "InternalError", "etcd has no leader")
		},
		"reset": func(_ http.ResponseWriter, r *http.Request) { faultproxy.Reset(r) },
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"kind":"SecretList","apiVersion":"v1","items":[{"metadata":{"na`))
		},
	} {
		fail = f
		for command, want := range map[string]string{
			"list -q": "r\n", "history r": "Install complete", "status r": "STATUS: deployed", "status r -o json": `"deployed"`, "drift r": "r", "get manifest r": "kind: ", "__complete status r": "r\tplain",
		} {
			left.Store(3)
			if s := m.run(0, strings.Fields(command)...); !strings.Contains(s, want) || left.Load() >= 0 {
				t.Errorf("%s, %d of 3 failures left: %s prints\n%s", cause, left.Load()+1, command, s)
			}
		}
	}
}
