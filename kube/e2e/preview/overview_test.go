package preview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/cli"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/auditlog"
)

// following is an overview that is followed until the test ends.
type following struct {
	*kube.Overview
	mu     sync.Mutex
	rows   []kube.ReleaseRow
	listed bool
	away   error
}

// followReleases follows the releases of a namespace over a connection.
func followReleases(t *testing.T, c *kube.Client, namespace string) *following {
	f := &following{Overview: c.Overview(namespace)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- f.Follow(ctx, func(rows []kube.ReleaseRow, listed bool, away error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.rows, f.listed, f.away = rows, listed, away
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("following ended: %v", err)
		}
	})
	return f
}

// row returns the row of a release, zero if there is none.
func (f *following) row(name string) kube.ReleaseRow {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.rows, func(r kube.ReleaseRow) bool { return r.Name == name }); i >= 0 {
		return f.rows[i]
	}
	return kube.ReleaseRow{}
}

// count returns how many rows are as wanted.
func (f *following) count(is func(kube.ReleaseRow) bool) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rows {
		if is(r) {
			n++
		}
	}
	return n
}

func (f *following) isAway() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away != nil
}

// requestsSince counts lockstep's requests in a namespace since a time, by resource.
func requestsSince(r *rig.Rig, since time.Time) map[string]int {
	r.T.Helper()
	log := r.Log()
	seen, n := map[string]bool{}, map[string]int{}
	for _, e := range log.UserAgent("lockstep").Namespace(r.Namespace).Where(func(e auditlog.Event) bool { return e.Received.After(since) }) {
		if !seen[e.AuditID] { // a watch has two events
			seen[e.AuditID] = true
			n[e.Object.Resource]++
		}
	}
	return n
}

// storeRevisions stores revisions of a release with one ConfigMap, as Helm does.
func storeRevisions(t *testing.T, r *rig.Rig, name string, revisions int) {
	t.Helper()
	labels := map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	records := driver.NewSecrets(r.Cluster.CoreV1().Secrets(r.Namespace))
	for version := 1; version <= revisions; version++ {
		rel := &rel1.Release{
			Name: name, Namespace: r.Namespace, Version: version, Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "small", Version: "1.2.3", APIVersion: "v2"}},
			Manifest: "---\n# Source: small/templates/all.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n",
			Info:     &rel1.Info{Status: rcommon.StatusSuperseded, LastDeployed: time.Now()},
		}
		if version == revisions {
			rel.Info.Status = rcommon.StatusDeployed
		}
		if err := records.Create(fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, version), rel); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRequests: with 200 releases, the overview costs at most three requests for each kind, and none once it is known, although
// it follows all changes. Only the content of the wanted records is read.
func TestRequests(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	const many, inView = 200, 45
	var creating sync.WaitGroup
	for worker := range 4 {
		creating.Go(func() {
			for i := worker; i < many; i += 4 {
				storeRevisions(t, r, fmt.Sprintf("r%03d", i), 1+i%3)
			}
		})
	}
	creating.Wait()
	var wanted []kube.ReleaseKey
	for i := range inView {
		wanted = append(wanted, kube.ReleaseKey{Namespace: r.Namespace, Name: fmt.Sprintf("r%03d", i)})
	}
	start := time.Now()
	f := followReleases(t, rig.Connect(t, r.Namespace), r.Namespace)
	f.Want(wanted)
	known := func(row kube.ReleaseRow) bool {
		return row.Health.Known && row.Health.Ready == 1 && row.Chart == "small" && row.Version == "1.2.3"
	}
	r.Eventually("the health of the releases in view is known", func() bool { return f.count(known) == inView })
	if n := f.count(func(kube.ReleaseRow) bool { return true }); n != many {
		t.Errorf("%d releases are listed, want %d", n, many)
	}
	if got := f.row("r002"); got.Revision != 3 || got.Status != "deployed" || got.By != "helm" {
		t.Errorf("r002 is listed as %+v", got)
	}
	for resource, n := range requestsSince(r, start) {
		if n > 3 {
			t.Errorf("%d requests for %s, want at most 3", n, resource)
		}
	}
	quiet := time.Now()
	time.Sleep(6 * time.Second) // longer than the first watch of an operation
	if n := requestsSince(r, quiet); len(n) > 0 {
		t.Errorf("while nothing changes, there are requests: %v", n)
	}
	if err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Delete(t.Context(), "r001", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the deleted object is missing", func() bool {
		return strings.Contains(f.row("r001").Health.Cause, "ConfigMap/r001: not in the cluster")
	})
	if n := requestsSince(r, quiet); len(n) > 0 {
		t.Errorf("a change costs requests: %v", n)
	}
	storeRevisions(t, r, "new", 2)
	r.Eventually("a new release is listed", func() bool { return f.row("new").Revision == 2 })
}

// TestHealth: the overview says what is not ready and why, as its pods show it, and follows what happens to the release.
func TestHealth(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	web := strings.Replace(rig.Deployment("web", nil, "0s", "  progressDeadlineSeconds: 1"), "example/app:1.0", "example/no-such-image:1", 1)
	broken := rig.ChartOf(t, rig.ConfigMap("fine", nil), web)
	r.MustFail(r.Install("plain", rig.UseChart(broken, func(d *kube.Deploy) { d.Timeout = 5 * time.Second })))
	f := followReleases(t, r.Client, r.Namespace)
	f.Want([]kube.ReleaseKey{{Namespace: r.Namespace, Name: "t"}})
	r.Eventually("the cause is known", func() bool {
		row := f.row("t")
		return row.Status == "failed" && row.Health.Failed == 1 && row.Health.Ready == 1 && row.Health.Of == 2 &&
			strings.HasPrefix(row.Health.Cause, "Deployment/web: ") && strings.Contains(row.Health.Cause, "cannot be pulled")
	})
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("fine", nil), rig.Deployment("web", nil, "0s")), nil)))
	r.Eventually("the fixed release is ready", func() bool {
		row := f.row("t")
		return row.Revision == 2 && row.Status == "deployed" && row.Health.Known && row.Health.Ready == 2 && row.Health.Cause == "" && strings.Contains(row.By, " on ") && !strings.Contains(row.By, "process")
	})
	r.MustRun(r.Uninstall())
	r.Eventually("the uninstalled release is gone", func() bool { return f.row("t").Name == "" })
}

// TestStartedJob: a Job that nothing waits for does not keep a release from being deployed, but the overview says that it cannot start or
// has failed, and why. For a selected release the cause is the one that a run finds, with exit code and log.
func TestStartedJob(t *testing.T) {
	t.Parallel()
	pod := func(annotations string) string {
		return strings.Replace(rig.Job("load", nil, "10ms", "  backoffLimit: 0"), "sandbox/run-duration: 10ms", "sandbox/run-duration: 10ms, "+annotations, 1)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
	for _, c := range []struct {
		name, job, seen, selected string
		quota                     bool
	}{
		{"quota", rig.Job("load", nil, "10ms"), "Job/load: pods cannot be created: exceeded quota none", "Job/load: no pods can be created: exceeded quota none", true},
		{"secret", strings.Replace(rig.Job("load", nil, "10ms"), "image: example/app:1.0", "image: example/app:1.0, envFrom: [{secretRef: {name: login}}]", 1), "Job/load: container main cannot start: secret \"login\" not found", "Job/load: container main cannot start: secret \"login\" not found", false},
		{"node", strings.Replace(rig.Job("load", nil, "10ms"), "restartPolicy: Never", "restartPolicy: Never, nodeSelector: {disk: none}", 1), "Job/load: cannot be scheduled: ", "Job/load: cannot be scheduled: ", false},
		{"failed", pod(`sandbox/exit-code: "3", sandbox/log: "FATAL: no database"`), "Job/load: container main exited with code 3", "Job/load: container main exited with code 3: FATAL: no database", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			if c.name == "failed" {
				r.Meddles = "the Job may fail when the run has just ended"
			}
			if c.quota {
				if _, err := r.Cluster.CoreV1().ResourceQuotas(r.Namespace).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			op := r.Must(r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("fine", nil), c.job), nil)))
			r.Run(op, nil) // it may see a failed Job before its end
			start := time.Now()
			f := followReleases(t, rig.Connect(t, r.Namespace), r.Namespace)
			key := kube.ReleaseKey{Namespace: r.Namespace, Name: "t"}
			f.Want([]kube.ReleaseKey{key})
			says := func(cause string) func() bool {
				return func() bool {
					h := f.row("t").Health
					return h.Failed == 1 && h.Ready == 1 && strings.HasPrefix(h.Cause, cause)
				}
			}
			r.Eventually("the overview says: "+c.seen, says(c.seen))
			f.Select(key)
			r.Eventually("the overview says of the selected release: "+c.selected, says(c.selected))
			if t.Failed() {
				t.Logf("it says: %+v", f.row("t"))
			}
			for resource, n := range requestsSince(r, start) {
				if n > 3 {
					t.Errorf("%d requests for %s, want at most 3", n, resource)
				}
			}
			quiet := time.Now()
			time.Sleep(2 * time.Second)
			if n := requestsSince(r, quiet); len(n) > 0 && c.seen != c.selected { // else the diagnosis may still run
				t.Errorf("while nothing changes, there are requests: %v", n)
			}
		})
	}
}

// TestOutage: while the API server cannot be reached, the releases stay, and the overview says so. Then it goes on.
func TestOutage(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	storeRevisions(t, r, "before", 1)
	proxy := rig.NewProxy(t)
	f := followReleases(t, proxy.Client(t, r.Namespace), r.Namespace)
	r.Eventually("the release is listed", func() bool { return f.row("before").Revision == 1 })
	proxy.Set(rig.LinkCut)
	r.Eventually("the outage is known", f.isAway)
	if f.row("before").Revision != 1 {
		t.Error("the release is gone during the outage")
	}
	storeRevisions(t, r, "meanwhile", 1)
	proxy.Set(rig.LinkUp)
	r.Eventually("the release of the outage is listed", func() bool { return f.row("meanwhile").Revision == 1 && !f.isAway() })
}

// TestDenied: what a user may not do is known from one review. Who may not list the releases gets an error.
func TestDenied(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	user := r.Namespace + "-reader"
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list", "watch", "get"}}}}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}
	_, err := r.Cluster.RbacV1().Roles(r.Namespace).Create(t.Context(), role, metav1.CreateOptions{})
	_, bindErr := r.Cluster.RbacV1().RoleBindings(r.Namespace).Create(t.Context(), binding, metav1.CreateOptions{})
	if err := errors.Join(err, bindErr); err != nil {
		t.Fatal(err)
	}
	as := func(user string) *kube.Client {
		return rig.Connect(t, r.Namespace, func(s *cli.EnvSettings) { s.KubeAsUser = user })
	}
	r.Eventually("the reader may list", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		listed := false
		err := as(user).Overview(r.Namespace).Follow(ctx, func(_ []kube.ReleaseRow, is bool, _ error) { listed = is; cancel() })
		return err == nil && listed
	})
	denied, err := as(user).Denied(t.Context(), r.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	for operation, verb := range map[string]string{"install": "create", "upgrade": "create and update", "rollback": "create and update", "uninstall": "delete", "test": "update"} {
		if !strings.Contains(denied[operation], verb) || !strings.Contains(denied[operation], "secrets in namespace "+r.Namespace) {
			t.Errorf("%s: %q does not name %s", operation, denied[operation], verb)
		}
	}
	if denied, err := r.Client.Denied(t.Context(), r.Namespace); err != nil || len(denied) > 0 {
		t.Errorf("the administrator: %v, %v", denied, err)
	}
	err = as(r.Namespace+"-nobody").Overview(r.Namespace).Follow(t.Context(), func([]kube.ReleaseRow, bool, error) {})
	if err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("who may not list the releases gets %v", err)
	}
}

// TestHistory: each revision says what it changed, and two of them can be compared. Secret values are hidden.
func TestHistory(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	secret := func(value string) string {
		return rig.Object("v1/Secret/login", nil, "stringData: {password: "+value+"}")
	}
	first := rig.ChartOf(t, rig.ConfigMap("kept", nil), rig.ConfigMap("dropped", nil), secret("hunter2hunter2"))
	second := rig.ChartOf(t, rig.ConfigMap("kept", nil, "more: x"), rig.ConfigMap("added", nil), secret("swordfish77"))
	values := func(v map[string]any) func(*kube.Deploy) { return func(d *kube.Deploy) { d.Values = v } }
	r.Deploy("plain", rig.UseChart(first, values(map[string]any{"size": 1})))
	r.MustRun(r.Upgrade("plain", rig.UseChart(second, values(map[string]any{"size": 2, "apiToken": "tok-4711-4711"}))))
	h, err := r.Client.ReleaseHistory(t.Context(), kube.ReleaseKey{Namespace: r.Namespace, Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	all := h.Revisions()
	if len(all) != 2 || all[0].Number != 2 || all[0].What != "values, objects: 1 added, 2 changed, 1 removed" || all[1].What != "" {
		t.Errorf("the revisions are %+v", all)
	}
	changes, err := h.Changes(1, 2)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, c.Object.String()+" "+string(c.Action))
		text := fmt.Sprint(c)
		for _, value := range []string{"hunter2", "swordfish", "4711", "aHVudGVyMmh1bnRlcjI"} {
			if strings.Contains(text, value) {
				t.Errorf("%s shows %s: %s", c.Object, value, text)
			}
		}
	}
	slices.Sort(got)
	if want := []string{"ConfigMap/added create", "ConfigMap/dropped delete", "ConfigMap/kept change", "Secret/login change", "values/t change"}; !slices.Equal(got, want) {
		t.Errorf("the changes are %q, want %q", got, want)
	}
	if _, err := h.Changes(1, 7); err == nil {
		t.Error("a revision that does not exist is compared")
	}
}
