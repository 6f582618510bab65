package recovery

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"helm.sh/helm/v4/pkg/cli"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/lease"
)

// childOperation is an operation that a child process runs, so that it can be killed. It is passed in the environment.
type childOperation struct {
	Server, Kubeconfig, Namespace string
	Locks                         string
	Operation, Chart              string
	Revision                      int // to roll back to
	Replace                       []string
	ClientSide                    bool // apply on the client
}

const childOperationVar = "LOCKSTEP_TEST_ERRAND"

// runChildOperation runs an operation in the child process, which is the test binary.
func runChildOperation(text string) int {
	var e childOperation
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	s := cli.New()
	s.KubeConfig, s.KubeAPIServer = e.Kubeconfig, e.Server
	s.SetNamespace(e.Namespace)
	c, err := kube.Connect(s, nil, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	op, err := e.prepare(c)
	if err == nil {
		err = op.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// prepare prepares the operation.
func (e childOperation) prepare(c *kube.Client) (*kube.Operation, error) {
	ctx, common := context.Background(), kube.Common{Release: "t", Namespace: e.Namespace, ReplaceObjects: e.Replace, Lease: lease.Options{LockDir: e.Locks}}
	var chart *charts.Chart
	if e.Chart != "" {
		var err error
		if chart, err = charts.LoadPath(e.Chart); err != nil {
			return nil, err
		}
	}
	deploy := kube.Deploy{Common: common, ChartOptions: kube.ChartOptions{Chart: chart}, Install: e.Operation == "upgrade --install"}
	if e.ClientSide {
		deploy.ServerSide = "false"
	}
	switch e.Operation {
	case "install":
		return c.PrepareInstall(ctx, deploy)
	case "upgrade", "upgrade --install":
		return c.PrepareUpgrade(ctx, deploy)
	case "rollback":
		return c.PrepareRollback(ctx, kube.Rollback{Common: common, Revision: e.Revision})
	}
	return c.PrepareUninstall(ctx, kube.Uninstall{Common: common})
}

// kill runs an operation in a child process and kills the process after its n-th successful write, before it gets the
// response. It reports whether there was such a write.
func kill(r *rig.Rig, e childOperation, n int64) bool {
	r.T.Helper()
	var writes atomic.Int64
	var child *exec.Cmd
	var dead sync.Once
	var killing atomic.Bool
	started := make(chan struct{})
	c := r.ConnectThrough(rig.Interceptor{ModifyResponse: func(resp *http.Response) error {
		req := resp.Request
		if req.Method == http.MethodGet || req.URL.Query().Has("dryRun") || strings.HasPrefix(req.URL.Path, "/apis/auth") || resp.StatusCode >= 300 {
			return nil
		}
		if writes.Load() > 0 && req.Method == http.MethodPut && strings.Contains(req.URL.Path, "/leases/") {
			return nil // the number of renewals depends on the machine
		}
		if writes.Add(1) < n {
			return nil
		}
		<-started
		dead.Do(func() {
			killing.Store(true)
			_ = child.Process.Kill() // it still runs, waiting for this response
		})
		return http.ErrAbortHandler
	}}, "")
	config, err := c.Getter.ToRESTConfig()
	if err != nil {
		r.T.Fatal(err)
	}
	e.Server, e.Kubeconfig = config.Host, rig.Sandbox.Kubeconfig
	text, err := json.Marshal(e)
	if err != nil {
		r.T.Fatal(err)
	}
	child = exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childOperationVar+"="+string(text))
	out, err := child.StderrPipe()
	if err != nil {
		r.T.Fatal(err)
	}
	if err := child.Start(); err != nil {
		r.T.Fatal(err)
	}
	close(started)
	stderr := make([]byte, 4096)
	m, _ := out.Read(stderr)
	err = child.Wait()
	if err != nil && !killing.Load() {
		r.T.Errorf("%s was not killed and failed: %v: %s", e.Operation, err, stderr[:m])
	}
	return killing.Load()
}

// leaseGone reports whether the release has no Lease, as after a complete run.
func leaseGone(r *rig.Rig) bool {
	r.T.Helper()
	_, err := r.Cluster.CoordinationV1().Leases(r.Namespace).Get(r.T.Context(), lease.Name("t"), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		r.T.Fatal(err)
	}
	return err != nil
}

// TestKilledAfterAWrite kills an operation after one of its writes, then runs the same command again: one revision is
// deployed, the cluster has exactly its objects, and objects of other releases are unchanged (R32a, R50, R52).
func TestKilledAfterAWrite(t *testing.T) {
	hook := func(when string) string {
		return rig.ConfigMap("hook", map[string]string{"helm.sh/hook": when, "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"})
	}
	one := rig.DirOf(t, hook("pre-install,pre-upgrade,pre-rollback"), rig.ConfigMap("a", rig.Group("one")), rig.ConfigMap("old", rig.Group("two", "one")), rig.ConfigMap("taken", nil))
	two := rig.DirOf(t, hook("pre-install,pre-upgrade,pre-rollback"), rig.ConfigMap("a", rig.Group("one"), "v: two"), rig.ConfigMap("new", rig.Group("two", "one")))
	three := rig.DirOf(t, rig.ConfigMap("third", rig.Group("two")), rig.ConfigMap("fourth", rig.Group("three", "two")))
	atOne, atTwo := []string{"a", "old", "taken"}, []string{"a", "new", "taken"}
	first, other := childOperation{Operation: "install", Chart: one}, childOperation{Operation: "upgrade", Chart: three}
	tests := []struct {
		name      string
		before    []childOperation // run completely
		cut       []childOperation // killed after their fourth write
		operation childOperation
		leaves    []string
		last      string // the final status of the release
		taken     bool   // another release takes over an object
	}{
		{"install", nil, nil, first, atOne, "deployed", false},
		{"upgrade --install", nil, nil, childOperation{Operation: "upgrade --install", Chart: one}, atOne, "deployed", false},
		{"install after another", nil, []childOperation{{Operation: "install", Chart: three}}, first, atOne, "deployed", false},
		{"upgrade", []childOperation{first}, nil, childOperation{Operation: "upgrade", Chart: two}, atTwo, "deployed", true},
		{"upgrade after another", []childOperation{first}, []childOperation{other}, childOperation{Operation: "upgrade", Chart: two}, atTwo, "deployed", true},
		{"rollback", []childOperation{first, {Operation: "upgrade", Chart: two}}, nil, childOperation{Operation: "rollback"}, atOne, "deployed", false},
		{"rollback after an upgrade", []childOperation{first}, []childOperation{other}, childOperation{Operation: "rollback", Revision: 1}, atOne, "deployed", false},
		{"uninstall", []childOperation{first}, []childOperation{other}, childOperation{Operation: "uninstall"}, []string{"taken"}, "", true},
	}
	const maxWrites = 12
	for i, tt := range tests {
		for n := int64(1); n <= maxWrites; n++ {
			if !rig.Long && n != int64(2+i%3) {
				continue
			}
			t.Run(fmt.Sprintf("%s %d", tt.name, n), func(t *testing.T) {
				t.Parallel()
				r := rig.NewNamed(t, fmt.Sprintf("kill-%s-%d", strings.NewReplacer(" ", "", "--", "-").Replace(tt.name), n))
				here := func(e childOperation) childOperation {
					e.Namespace, e.Locks = r.Namespace, rig.LockDir()
					return e
				}
				for _, e := range tt.before {
					r.MustRun(here(e).prepare(r.Client))
				}
				if tt.taken {
					r.PatchConfigMap("taken", `{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`)
				}
				for _, e := range tt.cut {
					if !kill(r, here(e), 4) {
						t.Fatalf("the preceding %s was not killed", e.Operation)
					}
				}
				again := here(tt.operation)
				if !kill(r, again, n) {
					return
				}
				before, over := r.Revisions(), leaseGone(r)
				if !over {
					op, err := again.prepare(r.Client)
					// An install of a deployed release is refused, because the name is in use (R51a).
					over = err != nil && again.Operation == "install" && strings.Contains(err.Error(), "nothing to do")
					if err != nil && !over {
						t.Fatalf("%v: %v", before, err)
					}
					if op != nil {
						r.MustRun(op, nil)
					}
				}
				if !over && !leaseGone(r) {
					t.Error("the Lease was not deleted")
				}
				if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, tt.leaves) {
					t.Errorf("after %v: ConfigMaps %v, want %v", before, got, tt.leaves)
				}
				if got := string(r.Status()); got != tt.last {
					t.Fatalf("the release is %q", got)
				}
				if tt.last == "" {
					return
				}
				deployed := slices.DeleteFunc(r.Revisions(), func(s string) bool { return !strings.HasSuffix(s, " deployed") })
				if len(deployed) != 1 {
					t.Errorf("deployed revisions %v, want one", deployed)
				}
			})
		}
	}
}
