package outage

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/cli"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/faultproxy"
)

// outageLength is long enough for several retries.
const outageLength = 3 * time.Second

// flaky is an API server that fails from the first request that matches until outageLength later. Its user has a token
// file.
type flaky struct {
	proxy   *faultproxy.Proxy
	cause   string
	matches func(*http.Request) bool
	token   string // the path

	mu    sync.Mutex
	until time.Time // the end of the outage, zero before it
	tried int       // requests during the outage
}

func newFlaky(t *testing.T, cause string, matches func(*http.Request) bool) *flaky {
	t.Helper()
	f := &flaky{cause: cause, matches: matches, token: filepath.Join(t.TempDir(), "token")}
	if err := os.WriteFile(f.token, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.proxy, err = faultproxy.New(faultproxy.Options{Kubeconfig: rig.Sandbox.Kubeconfig, TLS: true, Intercept: f.intercept}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.proxy.Close)
	return f
}

// connect returns a connection as a user with the token file.
func (f *flaky) connect(t *testing.T, namespace string) *kube.Client {
	t.Helper()
	config := api.NewConfig()
	config.Clusters["c"] = &api.Cluster{Server: f.proxy.URL, InsecureSkipTLSVerify: true}
	config.AuthInfos["c"] = &api.AuthInfo{TokenFile: f.token}
	config.Contexts["c"] = &api.Context{Cluster: "c", AuthInfo: "c"}
	config.CurrentContext = "c"
	path := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return rig.Connect(t, namespace, func(s *cli.EnvSettings) { s.KubeConfig = path })
}

// begin starts the outage. Connections are reset, so that watches end too.
func (f *flaky) begin() {
	f.until = time.Now().Add(outageLength)
	go func() {
		if f.cause != "refused" {
			f.proxy.Cut()
			return
		}
		f.proxy.Down()
		time.Sleep(outageLength)
		for f.proxy.Up() != nil { // another process may have the port for a moment
			time.Sleep(10 * time.Millisecond)
		}
	}()
	if f.cause == "401" {
		_ = os.Remove(f.token) // until it is rotated
		time.AfterFunc(outageLength, func() { _ = os.WriteFile(f.token, []byte("new"), 0o600) })
	}
}

func (f *flaky) intercept(w http.ResponseWriter, r *http.Request, next http.Handler) {
	f.mu.Lock()
	if f.until.IsZero() && f.matches(r) {
		f.begin()
	}
	began, fails := !f.until.IsZero(), time.Now().Before(f.until)
	if fails {
		f.tried++
	}
	f.mu.Unlock()
	switch {
	case f.cause == "401" && began && r.Header.Get("Authorization") != "Bearer new":
		faultproxy.Refuse(w, http.StatusUnauthorized, "Unauthorized", "the token has expired")
	case !fails:
		r.Header.Del("Authorization") // the proxy has its own user
		next.ServeHTTP(w, r)
	case f.cause == "reset" || f.cause == "refused":
		faultproxy.Reset(r)
	case f.cause == "429":
		w.Header().Set("Retry-After", "1")
		faultproxy.Refuse(w, http.StatusTooManyRequests, "TooManyRequests", "made to fail")
	case f.cause == "500":
		faultproxy.Refuse(w, http.StatusInternalServerError, "InternalError", "made to fail")
	case f.cause == "502":
		w.WriteHeader(http.StatusBadGateway)
	case f.cause == "503":
		w.WriteHeader(http.StatusServiceUnavailable)
	case f.cause == "504":
		faultproxy.Refuse(w, http.StatusGatewayTimeout, "Timeout", "made to fail")
	case f.cause == "web page":
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>Please log in</html>"))
	case f.cause == "redirect":
		w.Header().Set("Location", "https://login.example.com/")
		w.WriteHeader(http.StatusFound)
	case f.cause == "no route":
		http.Error(w, "404 page not found", http.StatusNotFound)
	}
}

// TestTransient lets each transient failure of rule R53 last for several retries, and begin at each kind of request. The
// run succeeds, its record is final and its Lease is deleted. make chaos begins every failure at every request.
func TestTransient(t *testing.T) {
	begins := map[string]func(*http.Request) bool{
		"write": func(r *http.Request) bool {
			return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/configmaps/first")
		},
		"watch": func(r *http.Request) bool {
			return r.URL.Query().Get("watch") == "true" && strings.Contains(r.URL.Path, "/deployments")
		},
		"first record": func(r *http.Request) bool {
			return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/secrets")
		},
		"last record": func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/secrets/sh.helm")
		},
		"lease": func(r *http.Request) bool {
			return r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/leases/")
		},
	}
	causes := []string{"401", "refused", "reset", "429", "500", "502", "503", "504", "web page", "redirect", "no route"}
	points := []string{"last record", "write", "watch", "lease", "first record"}
	for n, cause := range causes {
		for i, at := range points {
			if !rig.Long && i != n%len(points) && !(cause == "401" && at == "write") && !(cause == "web page" && at == "lease") {
				continue
			}
			t.Run(cause+" "+at, func(t *testing.T) {
				t.Parallel()
				r := rig.New(t)
				f := newFlaky(t, cause, begins[at])
				r.Client = f.connect(t, r.Namespace)
				chart := rig.ChartOf(t, rig.ConfigMap("first", rig.Group("a")), rig.Deployment("app", rig.Group("b", "a"), "100ms"), rig.ConfigMap("last", rig.Group("c", "b")))
				out := r.MustRun(r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.Timeout, i.ReadinessTimeout = time.Minute, 20*time.Second })))
				f.mu.Lock()
				defer f.mu.Unlock()
				if f.until.IsZero() || cause != "refused" && f.tried < 2 {
					t.Errorf("%d requests failed", f.tried)
				}
				if r.Status() != rcommon.StatusDeployed {
					t.Errorf("the release is %q: %s", r.Status(), out.State.Message)
				}
				leases, err := r.Cluster.CoordinationV1().Leases(r.Namespace).List(t.Context(), metav1.ListOptions{})
				if err != nil || len(leases.Items) > 0 {
					t.Errorf("Leases left: %v, %v", leases.Items, err)
				}
				if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"first", "last"}) {
					t.Errorf("ConfigMaps %v", got)
				}
			})
		}
	}
}

// TestMarkedAfterRollback: the failed revision cannot be marked failed before the rollback. It is marked afterwards (R34).
func TestMarkedAfterRollback(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a"))), nil))
	var failing, refused atomic.Bool
	r.Client = r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/secrets") && refused.Load() { // of the rollback
			failing.Store(false)
		}
		if req.Method != http.MethodPut || !strings.HasSuffix(req.URL.Path, ".v2") || !failing.Load() {
			return false
		}
		refused.Store(true)
		return rig.InternalError(w)
	}}, "")
	never := rig.Deployment("web", rig.Impatient(rig.Group("b", "a")), "1h")
	op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a"), "v: two"), never), func(d *kube.Deploy) {
		d.Timeout, d.ReadinessTimeout, d.RollbackOnFailure = 30*time.Second, 30*time.Second, true
	}))
	if err != nil {
		t.Fatal(err)
	}
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindGroup && e.Group == "edge:b" && e.Status == event.Failed {
			failing.Store(true)
		}
	})
	if out.State.Exit != 1 || !refused.Load() || !strings.Contains(out.State.Message, "rolled back to revision 1") {
		t.Errorf("exit %d, the mark was refused: %t: %s", out.State.Exit, refused.Load(), out.State.Message)
	}
	r.AssertHistory("1 superseded", "2 failed", "3 deployed")
}
