package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/kube/incluster"
	"lockstep/kube/throwaway/ociregistry"
	"lockstep/kube/throwaway/testcluster"
	"lockstep/ui/cli/help"
	"lockstep/ui/remote/protocol"
)

// slots limits how many of the tests that call limitedParallel run at once. With many more, the cluster would be so busy that
// their pods would not be ready in time. With fewer, tests that wait for a slot would take the places of all others (-parallel).
var slots = make(chan struct{}, 6)

// limitedParallel is t.Parallel for tests that keep the cluster busy.
func limitedParallel(t *testing.T) {
	t.Helper()
	t.Parallel()
	slots <- struct{}{}
	t.Cleanup(func() { <-slots })
}

// inNamespace creates a namespace in the cluster of the tests, as accounts does.
func inNamespace(t *testing.T, name string) kubernetes.Interface {
	t.Helper()
	return accounts(t, testcluster.Get(t).Kubeconfig, name)
}

// TestRunInTheClusterThatNobodyCouldControl: a run whose account may not read its commands is refused before its first write, with
// the command that prints the roles. With --skip-preflight it runs.
func TestRunInTheClusterThatNobodyCouldControl(t *testing.T) {
	limitedParallel(t)
	const ns = "uncontrolled"
	inNamespace(t, ns)
	m := newMachine(t)
	chart := filepath.Join(data, "charts", "plain")
	roles := m.run(0, "rbac", "s", chart, "-n", ns, "--service-account", "weak") // without --in-cluster
	testcluster.Get(t).Apply(t, testcluster.Parse(t, roles[strings.Index(roles, "apiVersion:"):])...)
	run := []string{"install", "s", chart, "-n", ns, "--in-cluster", "--service-account", "weak", "--no-tui"}
	s := m.run(2, run...)
	for _, want := range []string{"system:serviceaccount:uncontrolled:weak", "leases.coordination.k8s.io", "patch watch",
		"lockstep rbac s CHART -n uncontrolled --in-cluster --service-account weak"} {
		if !strings.Contains(s, want) {
			t.Errorf("the refusal does not say %q:\n%s", want, s)
		}
	}
	if s := m.run(0, "list", "-q", "-n", ns); strings.TrimSpace(s) != "" {
		t.Errorf("releases after a refusal: %s", s)
	}
	m.run(0, append(run, "--skip-preflight")...)
}

// accounts creates a namespace, the account "runner" with all permissions in it, and bindings that give
// the users viewer and operator the Roles of the help page.
func accounts(t *testing.T, kubeconfig, name string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, meta := t.Context(), func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	must(client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: meta(name)}, metav1.CreateOptions{}))
	must(client.CoreV1().ServiceAccounts(name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta("runner")}, metav1.CreateOptions{}))
	must(client.RbacV1().RoleBindings(name).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta("runner"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "runner", Namespace: name}},
	}, metav1.CreateOptions{}))
	for _, role := range documentedRoles(t) {
		user := strings.TrimPrefix(role.Name, "lockstep-")
		must(client.RbacV1().Roles(name).Create(ctx, &role, metav1.CreateOptions{}))
		must(client.RbacV1().RoleBindings(name).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta(user), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}, metav1.CreateOptions{}))
	}
	return client
}

// documentedRoles are the Roles that "lockstep help in-cluster" prints.
func documentedRoles(t *testing.T) (roles []rbacv1.Role) {
	t.Helper()
	for _, p := range help.Pages() {
		if p.Name != "in-cluster" {
			continue
		}
		_, text, _ := strings.Cut(p.Text(), "one of these roles to your users:\n\n")
		text, _, _ = strings.Cut(text, "\n\n")
		for _, doc := range strings.Split(text, "    ---\n") {
			var role rbacv1.Role
			if err := yaml.UnmarshalStrict([]byte(doc), &role); err != nil {
				t.Fatal(err)
			}
			roles = append(roles, role)
		}
	}
	if len(roles) != 2 {
		t.Fatalf("the page has %d roles", len(roles))
	}
	return roles
}

// TestRunInTheCluster starts a run as a Job and closes the terminal. An operator controls it from
// another machine; its pod is killed, and the next one resumes it (R50); a viewer can watch it, but not
// control it. Afterwards only the release is left. The run has the permissions that lockstep rbac prints.
func TestRunInTheCluster(t *testing.T) {
	limitedParallel(t)
	const ns = "in-cluster"
	client := inNamespace(t, ns)
	here, elsewhere := newMachine(t), newMachine(t)

	fanout := filepath.Join(data, "charts", "fanout")
	roles := here.run(0, "rbac", "s", fanout, "-n", ns, "--in-cluster", "--service-account", "exact")
	testcluster.Get(t).Apply(t, testcluster.Parse(t, roles[strings.Index(roles, "apiVersion:"):])...)
	if s := here.run(2, "install", "s", fanout, "-n", ns, "--approve-before", "left-1", "--approval-in-cluster", "--kube-as-user", "system:serviceaccount:"+ns+":exact"); !strings.Contains(s, "leases.coordination.k8s.io [list]") ||
		!strings.Contains(s, "lockstep rbac s "+fanout+" -n "+ns+" --approval-in-cluster") {
		t.Errorf("approvals in the cluster without the permissions for them: %s", s)
	}
	started, closed := here.start("install", "s", fanout, "-n", ns, "--in-cluster", "--service-account", "exact", "--no-tui", "--step")
	started.await(t, "install s: chart")
	as := func(user, command string) []string {
		return append(strings.Fields(command), "-n", ns, "--kube-as-user", user)
	}
	elsewhere.runUntil(strings.Join(as("viewer", "ctl s status"), " "), "paused")
	elsewhere.runUntil(strings.Join(as("viewer", "runs --in-cluster -o json"), " "), `"state": "paused"`)
	if s := elsewhere.run(0, as("viewer", "runs --in-cluster -o json")...); !strings.Contains(s, `"release": "s"`) || !strings.Contains(s, `"startedBy": "sandbox-admin"`) {
		t.Errorf("the runs in the cluster are %s", s)
	}
	if s := elsewhere.run(1, as("viewer", "ctl s step")...); !strings.Contains(s, "step refused") || !strings.Contains(s, "viewer") {
		t.Errorf("a step by a viewer: %q", s)
	}
	if s := elsewhere.run(2, as("viewer", "ctl other approve")...); !strings.Contains(s, "leases.coordination.k8s.io [list]") || strings.Contains(s, "no live run") {
		t.Errorf("an approval by somebody who may not look for the run: %s", s)
	}
	if s := elsewhere.run(0, as("operator", "ctl s step -o json")...); !strings.Contains(s, `"by":"operator"`) {
		t.Errorf("the reply to a step does not name the operator: %s", s)
	}
	for command, user := range map[string]string{"get values s": "operator", "get manifest s": "viewer"} { // the help page promises this
		if s := elsewhere.run(2, as(user, command)...); !strings.Contains(s, "secrets") {
			t.Errorf("%s by %s: %s", command, user, s)
		}
	}
	started.await(t, "ready")
	for _, line := range []string{"left-1 ready", "right-1 ready"} {
		if strings.Count(started.String(), line) > 1 {
			t.Errorf("a step was carried out twice:\n%s", started)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	pods, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "lockstep/release=s"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("pods of the run: %v, %v", pods, err)
	}
	killed := pods.Items[0].Name
	if err := client.CoreV1().Pods(ns).Delete(ctx, killed, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	elsewhere.runUntil(strings.Join(as("operator", "ctl s status"), " "), "install s paused")
	elsewhere.run(0, as("operator", "ctl s continue")...)
	if s := elsewhere.run(0, as("viewer", "attach s --no-tui")...); !strings.Contains(s, "install s done") {
		t.Errorf("attach from the other machine:\n%s", s)
	}
	started.await(t, "the run resumes in another pod")
	if code := closed(); code != 0 {
		t.Errorf("the command that started the run: exit code %d\n%s", code, started)
	}
	if s := here.run(0, "status", "s", "-n", ns); !strings.Contains(s, "deployed") {
		t.Errorf("status: %s", s)
	}

	jobs, err := client.BatchV1().Jobs(ns).List(ctx, metav1.ListOptions{LabelSelector: "lockstep/release=s"})
	if err != nil || len(jobs.Items) != 1 {
		t.Fatalf("Jobs of the run: %v, %v", jobs, err)
	}
	if err := client.BatchV1().Jobs(ns).Delete(ctx, jobs.Items[0].Name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}); err != nil {
		t.Fatal(err)
	}
	for {
		secrets, err := client.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{LabelSelector: "lockstep/release"})
		if err != nil {
			t.Fatal(err)
		}
		leases, err := client.CoordinationV1().Leases(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(secrets.Items)+len(leases.Items) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond) // ctx ends it
	}
}

// TestOperatorsInTheCluster closes the terminal of an upgrade in the cluster. Two operators send
// concurrent commands from another machine: each gets one result with the name of its sender. The Job
// is suspended and resumed, which attached terminals report. Then an operator sets a breakpoint, edits
// values and rolls back, and the run is replayed from its log.
func TestOperatorsInTheCluster(t *testing.T) {
	limitedParallel(t)
	const ns = "operators"
	client := inNamespace(t, ns)
	if _, err := client.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "second"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "lockstep-operator"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "second"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	here, elsewhere := newMachine(t), newMachine(t)
	slow := filepath.Join(data, "charts", "slow")
	here.run(0, "install", "t", slow, "-n", ns, "--set", "readyDelay=100ms", "--no-tui")
	here.startInCluster(ns, "upgrade", "t", slow, "--set", "readyDelay=200ms,password=first-s3cret", "--step")
	ctl := func(user, command string) []string {
		return append([]string{"ctl", "t"}, append(strings.Fields(command), "-n", ns, "--kube-as-user", user)...)
	}
	status := strings.Join(ctl("viewer", "status"), " ")
	elsewhere.runUntil(status, "paused")
	if err := here.last.Process.Kill(); err != nil {
		t.Fatal(err)
	}

	const each = 4
	var sent sync.WaitGroup
	for _, user := range []string{"operator", "second"} {
		m := newMachine(t)
		sent.Go(func() {
			for range each {
				m.run(0, ctl(user, "break after")...)
			}
		})
	}
	sent.Wait()
	claimRoot(t, ns)

	watched, watchEnds := elsewhere.start("attach", "t", "-n", ns, "--no-tui", "-o", "json", "--kube-as-user", "viewer")
	watched.await(t, `"by":"second"`)
	jobs, err := client.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(jobs.Items) != 1 {
		t.Fatalf("Jobs %v, %v", jobs, err)
	}
	job := jobs.Items[0].Name
	for _, suspended := range []bool{true, false} {
		if _, err := client.BatchV1().Jobs(ns).Patch(t.Context(), job, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, suspended), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if suspended {
			watched.await(t, "waiting for the Job's pod: ")
			watched.await(t, "suspended")
		}
	}
	elsewhere.runUntil(status, "before the first group")
	elsewhere.run(0, ctl("operator", "break after")...)
	elsewhere.run(0, ctl("operator", "continue")...)
	elsewhere.runUntil(status, "breakpoint")
	checkPermissions(t, client, ns)
	elsewhere.run(0, ctl("second", "edit --set readyDelay=300ms,password=second-s3cret")...)
	elsewhere.runUntil(status, "of revision 3")
	elsewhere.run(0, ctl("operator", "rollback")...)
	if code := watchEnds(); code != 3 {
		t.Errorf("attach to the run that was rolled back: exit code %d\n%s", code, watched)
	}
	by := map[string]int{}
	for _, line := range strings.Split(watched.String(), "\n") {
		var e event.Event
		if json.Unmarshal([]byte(line), &e) == nil && e.Kind == event.KindCommand && e.Command == event.Break {
			by[e.By]++
		}
	}
	if strings.Contains(watched.String(), "s3cret") {
		t.Errorf("a viewer reads a secret value:\n%s", watched)
	}
	if now, err := client.BatchV1().Jobs(ns).Get(t.Context(), job, metav1.GetOptions{}); err != nil || strings.Contains(now.String(), "s3cret") {
		t.Errorf("the Job has a secret value: %v, %v", now, err)
	}
	if by["operator"] != each+1 || by["second"] != each || by["root"] != 2 {
		t.Errorf("sent %d and %d commands, the run executed %v", each+1, each, by)
	}
	if s := here.run(0, "get", "values", "t", "-n", ns); !strings.Contains(s, "readyDelay: 100ms") {
		t.Errorf("after the rollback the values are\n%s", s)
	}
	if s := elsewhere.run(0, "replay", job, "--no-tui", "-n", ns, "--kube-as-user", "viewer"); !strings.Contains(s, "rollback") || !strings.Contains(s, "slow ready") {
		t.Errorf("the replay from the cluster:\n%s", s)
	}
}

// openRun opens the only run in a namespace, with a changed configuration of the client. The caller closes it.
func openRun(t *testing.T, ns string, change func(*rest.Config)) *incluster.Conn {
	t.Helper()
	config := testcluster.Get(t).Config(t)
	change(config)
	runs, err := incluster.List(t.Context(), kubernetes.NewForConfigOrDie(config), ns)
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs %v, %v", runs, err)
	}
	return runs[0].Open(t.Context(), incluster.Wait{})
}

// claimRoot sends two commands as an operator with another user's name, as the help page warns.
func claimRoot(t *testing.T, ns string) {
	t.Helper()
	conn := openRun(t, ns, func(c *rest.Config) { c.Impersonate.UserName = "operator" })
	defer conn.Close()
	for range 2 {
		line, err := protocol.CommandRequest(event.Command{Name: event.Break, Group: "after", By: "root"}).Encode()
		if err == nil {
			_, err = conn.Write(line)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// checkPermissions checks the permissions of the Roles on the help page.
func checkPermissions(t *testing.T, client kubernetes.Interface, ns string) {
	t.Helper()
	for _, test := range []struct {
		verb, group, resource, sub string
		viewer, operator           bool
	}{
		{"list", "batch", "jobs", "", true, true}, {"get", "", "pods", "log", true, true},
		{"get", "coordination.k8s.io", "leases", "", false, true}, {"update", "coordination.k8s.io", "leases", "", false, true},
		{"get", "", "secrets", "", false, false}, {"create", "batch", "jobs", "", false, false}, {"create", "", "pods", "", false, false}, {"create", "", "pods", "exec", false, false},
	} {
		for user, want := range map[string]bool{"viewer": test.viewer, "operator": test.operator} {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: ns, Verb: test.verb, Group: test.group, Resource: test.resource, Subresource: test.sub,
			}}}
			if got, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{}); err != nil || got.Status.Allowed != want {
				t.Errorf("%s may %s %s %s: %v, %v, want %t", user, test.verb, test.resource, test.sub, got.Status.Allowed, err, want)
			}
		}
	}
}

// TestOperatorsRulesInTheCluster: the pod waits as the flags say that were given outside, and its record says so (R22b).
func TestOperatorsRulesInTheCluster(t *testing.T) {
	limitedParallel(t)
	const ns = "rules-in-cluster"
	inNamespace(t, ns)
	m := newMachine(t)
	out := m.run(0, "install", "s", filepath.Join(data, "charts", "slow"), "-n", ns, "--in-cluster", "--service-account", "runner", "--no-tui",
		"--set", "readyDelay=15s", "--readiness-timeout", "10s", "--readiness-timeout", "Deployment/slow=1m", "--no-wait-for", "ConfigMap/after",
		"--readiness", "Deployment={.readyReplicas} == 1")
	for _, want := range []string{"by the operator's rule", "1 object not waited for"} {
		if !strings.Contains(out, want) {
			t.Errorf("the run does not say %q:\n%s", want, out)
		}
	}
	status := m.run(0, "status", "s", "-n", ns)
	for _, want := range []string{`Deployment/slow +✓ ready, by the operator's rule`, `ConfigMap/after +◇ applied.*, not waited for`} {
		if !regexp.MustCompile(want).MatchString(status) {
			t.Errorf("status does not say %q:\n%s", want, status)
		}
	}
}

// TestManifests applies the printed objects, as a GitOps tool would, and attaches to the run. The same
// input gives the same output.
func TestManifests(t *testing.T) {
	limitedParallel(t)
	const ns = "from-git"
	client := inNamespace(t, ns)
	m := newMachine(t)
	args := []string{"manifests", "s", filepath.Join(data, "charts", "fanout"), "-n", ns, "--service-account", "runner", "--set", "a=b", "--labels", "x=y,b=c", "--description", "from Git"}
	text := m.run(0, args...)
	if again := m.run(0, args...); again != text {
		t.Errorf("printed differently the second time:\n%s", again)
	}
	var git batchv1.Job
	for _, doc := range strings.Split(text, "---\n")[1:] {
		var kind metav1.TypeMeta
		var err error
		var secret corev1.Secret
		var lease coordinationv1.Lease
		var job batchv1.Job
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.Kind {
		case "Secret":
			if err = yaml.UnmarshalStrict([]byte(doc), &secret); err == nil {
				_, err = client.CoreV1().Secrets(ns).Create(t.Context(), &secret, metav1.CreateOptions{})
			}
		case "Lease":
			if err = yaml.UnmarshalStrict([]byte(doc), &lease); err == nil {
				_, err = client.CoordinationV1().Leases(ns).Create(t.Context(), &lease, metav1.CreateOptions{})
			}
		case "Job":
			if err = yaml.UnmarshalStrict([]byte(doc), &job); err == nil {
				_, err = client.BatchV1().Jobs(ns).Create(t.Context(), &job, metav1.CreateOptions{})
			}
			git = job
		default:
			t.Errorf("a %s is printed", kind.Kind)
		}
		if err != nil {
			t.Fatalf("%s: %v", kind.Kind, err)
		}
	}
	if s := m.run(0, "attach", "s", "-n", ns, "--no-tui"); !strings.Contains(s, "install s done") {
		t.Errorf("attach says\n%s", s)
	}
	if s := m.run(0, "history", "s", "-n", ns); !strings.Contains(s, "from Git") {
		t.Errorf("history says\n%s", s)
	}
	// A Job of the same name that is created again is another run (S13): it does not take the first one's revision for its own.
	client.BatchV1().Jobs(ns).Delete(t.Context(), git.Name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
	for t.Context().Err() == nil {
		if _, err := client.BatchV1().Jobs(ns).Create(t.Context(), &git, metav1.CreateOptions{}); err == nil {
			break
		} else if !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond) // until the first one is gone
	}
	m.runUntil("history s -n "+ns, "superseded")
}

// TestLargeChartInTheCluster installs a chart that does not fit into Secrets. Its large subchart is
// disabled, so it fits into a release record. A chart in a directory is refused; the pod downloads one
// in a registry with the user's credentials. If the registry no longer has it, the next pod ends the run.
func TestLargeChartInTheCluster(t *testing.T) {
	limitedParallel(t)
	const ns = "large-chart"
	client := inNamespace(t, ns)
	m := newMachine(t)
	dir := filepath.Join(t.TempDir(), "large")
	files := map[string][]byte{
		"Chart.yaml":            []byte("apiVersion: v2\nname: large\nversion: 1.0.0\ndependencies: [{name: off, version: 1.0.0, condition: off.enabled}]\n"),
		"values.yaml":           []byte("off: {enabled: false}\nv: one\nfail: false\n"),
		"templates/cm.yaml":     []byte(keptChart["templates/all.yaml"]),
		"charts/off/Chart.yaml": []byte("apiVersion: v2\nname: off\nversion: 1.0.0\n"),
	}
	for n := range 4 {
		noise := make([]byte, 4500<<10)
		_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(noise)
		files[fmt.Sprint("charts/off/noise-", n)] = noise
	}
	writeFiles(t, dir, files)
	in := []string{"-n", ns, "--in-cluster", "--service-account", "runner", "--no-tui"}
	if s := m.run(2, append([]string{"install", "s", dir}, in...)...); !strings.Contains(s, "the limit is 16 MiB") || !strings.Contains(s, "oci://") {
		t.Errorf("a large chart directory: %s", s)
	}
	archive := helmPackage(t, dir)
	fetched := make(chan string, 100)
	var gone atomic.Bool
	registry, ref := ociregistry.Serve(t, "large", "1.0.0", archive)
	registry.User, registry.Gone = "ann:pass-1", &gone
	registry.OnRequest = func(path string) {
		select {
		case fetched <- path:
		default: // counted already
		}
	}
	from := []string{ref, "--plain-http", "--username", "ann", "--password", "pass-1"}
	if s := m.run(0, slices.Concat([]string{"install", "s"}, from, in)...); !strings.Contains(s, "install s done") {
		t.Errorf("from a registry: %s", s)
	}
	pulls := 0
	for range len(fetched) {
		if strings.Contains(<-fetched, "/blobs/") {
			pulls++
		}
	}
	if pulls < 3 { // this process reads the config and the chart, the pod at least the chart
		t.Errorf("the pod did not download the chart: %d requests for blobs", pulls)
	}

	// The registry no longer has the chart when the pod is replaced: the next one rolls back (S13).
	out, ends := m.startInCluster(ns, slices.Concat([]string{"upgrade", "s"}, from, []string{"--set", "v=two", "--break-on", "second", "--rollback-on-failure"})...)
	m.runUntil("ctl s status -n "+ns, "paused")
	gone.Store(true)
	replacePod(t, client, ns, "s")
	if code := ends(); code != 1 || !strings.Contains(out.String(), "rolled back to revision 1") {
		t.Errorf("exit code %d, and the run says\n%s", code, out.String())
	}
	if s := m.run(0, "get", "values", "s", "-n", ns); strings.Contains(s, "v: two") {
		t.Errorf("the values are %s\n%s", s, m.run(0, "history", "s", "-n", ns))
	}
}

// helmPackage packages a chart, and returns the path of the archive.
func helmPackage(t *testing.T, dir string) string {
	t.Helper()
	chart, err := loader.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	path, err := chartutil.Save(chart, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestStackInTheCluster deploys and uninstalls a helmfile with Jobs, and attaches to each from another
// machine. The folder of the helmfile, which names the stack, is no valid name of an object or a label.
func TestStackInTheCluster(t *testing.T) {
	limitedParallel(t)
	const ns = "stack-in-cluster"
	inNamespace(t, ns)
	m, elsewhere := newMachine(t), newMachine(t)
	charts, err := filepath.Abs(filepath.Join(data, "charts"))
	if err != nil {
		t.Fatal(err)
	}
	const stack = "My Größe_Stack"
	dir := filepath.Join(t.TempDir(), stack)
	text := fmt.Sprintf(`releases:
- {name: two, namespace: %[1]s, chart: %[2]s/fanout, needs: [%[1]s/one]}
- {name: one, namespace: %[1]s, chart: %[2]s/plain, values: [{a: b}]}
`, ns, charts)
	writeFiles(t, dir, map[string]string{"helmfile.yaml": text})
	in := []string{"-f", dir, "-n", ns, "--in-cluster", "--service-account", "runner", "--no-tui"}
	if s := m.run(0, append([]string{"up"}, in...)...); !strings.Contains(s, "2 installed") {
		t.Errorf("up says\n%s", s)
	}
	if s := m.run(0, "get", "values", "one", "-n", ns); !strings.Contains(s, "a: b") {
		t.Errorf("values %s", s)
	}
	if s := elsewhere.run(0, "attach", stack, "-n", ns, "--no-tui"); !strings.Contains(s, "up "+stack+" done") {
		t.Errorf("attach says\n%s", s)
	}
	if s := m.run(0, append([]string{"down"}, in...)...); !strings.Contains(s, "down "+stack+" done") {
		t.Errorf("down says\n%s", s)
	}
	if s := m.run(0, "list", "-q", "-n", ns); strings.TrimSpace(s) != "" {
		t.Errorf("not uninstalled: %s", s)
	}
}

// TestBrokenConnections reads the events of a run in the cluster over connections that are closed
// repeatedly: each event arrives exactly once.
func TestBrokenConnections(t *testing.T) {
	limitedParallel(t)
	const ns = "cut-off"
	inNamespace(t, ns)
	cuts := 10
	if os.Getenv("CHAOS") == "long" {
		cuts = 50
	}
	m := newMachine(t)
	_, ends := m.startInCluster(ns, "install", "s", filepath.Join(data, "charts", "fanout"), "--step")
	m.runUntil("ctl s status -n "+ns, "paused")

	var wires breakable
	conn := openRun(t, ns, func(c *rest.Config) { c.Dial = wires.dial })
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	last := uint64(0)
	for cut := 0; lines.Scan(); {
		if len(lines.Bytes()) == 0 { // all past events were read
			for ; cut < cuts; cut++ {
				wires.closeAll(t)
			}
			m.run(0, "ctl", "s", "continue", "-n", ns)
			continue
		}
		var e event.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Seq != last+1 {
			t.Fatalf("the event after %d is %.80s (%v)", last, lines.Text(), err)
		}
		if last = e.Seq; e.Exit != nil && *e.Exit != 0 {
			t.Errorf("exit code %d", *e.Exit)
		}
	}
	if err := lines.Err(); err != nil || last < 20 {
		t.Errorf("%d events, %v", last, err)
	}
	if code := ends(); code != 0 {
		t.Errorf("install: exit code %d", code)
	}
}

// breakable are connections that the test can close.
type breakable struct {
	mu    sync.Mutex
	conns []net.Conn
	made  int
}

func (c *breakable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.conns = append(c.conns, conn)
		c.made++
	}
	return conn, err
}

// closeAll closes all connections and waits for a new one.
func (c *breakable) closeAll(t *testing.T) {
	c.mu.Lock()
	made := c.made
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
	c.mu.Unlock()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		c.mu.Lock()
		again := c.made > made
		c.mu.Unlock()
		if again {
			return
		}
	}
	t.Fatal("lockstep does not connect again")
}

// TestRunInTheClusterThatNeverStarts: for a Job whose pod cannot start, lockstep reports the cause and
// deletes the Job.
func TestRunInTheClusterThatNeverStarts(t *testing.T) {
	t.Parallel() // it mostly waits
	const ns = "never-started"
	client := inNamespace(t, ns)
	m := newMachine(t)
	chart := filepath.Join(data, "charts", "fanout")
	for _, test := range []struct {
		args, want string
	}{
		{"", "--in-cluster needs --service-account NAME"},
		{"--service-account nobody", "no ServiceAccount nobody"},
		{"--service-account runner --post-renderer x", "--post-renderer does not work with --in-cluster"},
		{"--service-account runner --set a=b --dry-run=server", "--in-cluster cannot be combined with --dry-run"},
	} {
		args := append([]string{"install", "s", chart, "-n", ns, "--in-cluster", "--no-tui"}, strings.Fields(test.args)...)
		if s := m.run(2, args...); !strings.Contains(s, test.want) {
			t.Errorf("%s: %s", test.args, s)
		}
	}
	out, ends := m.start("install", "s", chart, "-n", ns, "--in-cluster", "--service-account", "runner", "--image", "no-such-image", "--no-tui")
	out.await(t, "waiting for the Job's pod: ")
	if err := m.last.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := ends(); code != 3 {
		t.Errorf("interrupted before it started: exit code %d\n%s", code, out)
	}
	if s := m.run(2, "install", "s", chart, "-n", ns, "--in-cluster", "--service-account", "runner", "--image", "no-such-image", "--no-tui", "--timeout", "15s"); !strings.Contains(s, "waited 15s for the pod") || !strings.Contains(s, "no-such-image") {
		t.Errorf("an image that does not exist, R54: %s", s)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
	if _, err := client.CoreV1().ResourceQuotas(ns).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if s := m.run(2, "install", "s", chart, "-n", ns, "--in-cluster", "--service-account", "runner", "--no-tui", "--timeout", "8s"); !strings.Contains(s, "waited 8s for the pod") || !strings.Contains(s, "nothing was deployed") {
		t.Errorf("a quota without pods, R54: %s", s)
	}
	jobs, err := client.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(jobs.Items) > 0 && jobs.Items[0].DeletionTimestamp == nil {
		t.Errorf("Jobs that were not deleted: %v, %v", jobs, err)
	}
	suspended := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "suspended", Labels: map[string]string{"app.kubernetes.io/managed-by": "lockstep", incluster.LabelRelease: "s"}},
		Spec: batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "lockstep", Image: "x"}},
		}}},
	}
	if _, err := client.BatchV1().Jobs(ns).Create(t.Context(), suspended, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"status", "pause"} {
		if s := m.run(2, "ctl", "s", command, "-n", ns, "--timeout", "3s"); !strings.Contains(s, "suspended") {
			t.Errorf("ctl %s of a suspended run, R54: %s", command, s)
		}
	}
}
