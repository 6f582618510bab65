package cli

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"lockstep/kube/throwaway/testcluster"
)

// TestDriftCommand (S18): drift prints what somebody has changed in one release, all releases of a helmfile, or all of the
// cluster, as text, JSON, JUnit and SARIF, with an exit code for each case, and repairs it.
func TestDriftCommand(t *testing.T) {
	t.Parallel()
	const ns = "drifting"
	m, dir := newMachine(t), t.TempDir()
	chart, err := filepath.Abs(filepath.Join(data, "charts", "plain"))
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, map[string]string{
		"helmfile.yaml":  "releases:\n- {name: one, namespace: " + ns + ", chart: " + chart + "}\n- {name: two, namespace: " + ns + ", chart: ./own}\n",
		"own/Chart.yaml": "apiVersion: v2\nname: own\nversion: 1.0.0\n",
		"own/templates/all.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf, annotations: {helm.sh/resource-group: a, lockstep/ignore-drift: '[\"/data/theirs\"]'}}\ndata: {mine: \"1\", theirs: \"1\", password: s3cretvalue}\n" +
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: gone, annotations: {helm.sh/resource-group: b, helm.sh/depends-on-resource-groups: '[\"a\"]'}}\n",
	})
	file := filepath.Join(dir, "helmfile.yaml")
	m.run(0, "up", "-f", file, "--no-tui")
	if s := m.run(0, "drift", "two", "-n", ns); s != "two in namespace drifting, revision 1: no drift\n" {
		t.Errorf("no drift: %s", s)
	}
	if s := m.run(0, "drift", "-f", file); s != "2 releases: 2 without drift, 0 with drift\n" {
		t.Errorf("no drift in a helmfile: %s", s)
	}
	cluster := testcluster.Get(t)
	cluster.Apply(t, testcluster.Parse(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf, namespace: "+ns+"}\ndata: {mine: \"2\", theirs: \"2\", password: s3condvalue, more: x}\n")...)
	client := kubernetes.NewForConfigOrDie(cluster.Config(t))
	if err := client.CoreV1().ConfigMaps(ns).Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	junit, sarif := filepath.Join(dir, "junit.xml"), filepath.Join(dir, "drift.sarif")
	text := m.run(2, "drift", "two", "-n", ns, "--detailed-exitcode", "--report", "junit="+junit, "--report", "sarif="+sarif)
	for _, want := range []string{
		`(?m)^two in namespace drifting, revision 1: 2 of 2 objects differ$`, `(?m)^  ConfigMap/conf$`, `(?m)^  ConfigMap/gone gone$`,
		`(?m)^    data.mine: 1 → 2 \(test, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\)$`, `(?m)^    data.password: \(hidden\) → \(hidden, changed\) \(test, .*\)$`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "theirs") || strings.Contains(text, "more") {
		t.Errorf("what is ignored, or was added, counts:\n%s", text)
	}
	checkDriftReports(t, junit, sarif)
	if s := m.run(0, "watch", "two", "-n", ns, "--once"); !regexp.MustCompile(`ConfigMap/conf +.*, changed by test \([-0-9: ]+\): data\.mine, data\.password\n`).MatchString(s) {
		t.Errorf("watch: %s", s)
	}
	if want := "next: lockstep drift two -n " + ns + " --repair\n"; !strings.HasSuffix(text, want) {
		t.Errorf("%q does not end\n%s", want, text)
	}
	s := m.run(2, "drift", "-f", file, "-l", "name!=none", "--detailed-exitcode", "--report", "junit="+junit, "--report", "sarif="+sarif)
	if !strings.Contains(s, "\n2 releases: 1 without drift, 1 with drift\nnext: lockstep drift -f "+file+" -l 'name!=none' --repair\n") || strings.Contains(s, "one in") {
		t.Errorf("a helmfile: %s", s)
	}
	checkStackReports(t, file, junit, sarif)
	var found struct {
		Releases []struct {
			Release string
			Objects []struct {
				Fields []struct{ Pointer, From, To, Manager string }
			}
		}
	}
	if err := json.Unmarshal([]byte(m.run(0, "drift", "one", "two", "-n", ns, "-o", "json")), &found); err != nil {
		t.Fatal(err)
	}
	if f := found.Releases[1].Objects[0].Fields; len(f) != 2 || f[0].Pointer != "/data/mine" || f[0].From != "1" || f[0].To != "2" || f[0].Manager != "test" || f[1].To != "(hidden, changed)" {
		t.Errorf("JSON: %+v", found)
	}

	m.run(0, "uninstall", "one", "-n", ns, "--no-tui")
	if s := m.run(1, "drift", "-f", file); !strings.Contains(s, "one in namespace drifting: release one not found") || !strings.Contains(s, "1 with drift, 1 not compared completely") {
		t.Errorf("a release that is not installed: %s", s)
	}
	if s := m.run(0, "drift", "two", "-n", ns, "--repair"); !strings.Contains(s, "created: ConfigMap/gone") || !strings.Contains(s, "changed: ConfigMap/conf") || !strings.Contains(s, "repair two done") {
		t.Errorf("the repair: %s", s)
	}
	if s := m.run(0, "drift", "two", "-n", ns, "--repair"); s != "two in namespace drifting, revision 1: no drift\n" {
		t.Errorf("a second repair: %s", s)
	}
	for _, wrong := range [][]string{
		{"drift", "two", "-A"}, {"drift", "two", "-f", file}, {"drift", "-A", "-f", file}, {"drift", "two", "--report", "html=x"}, {"drift", "two", "--timeout", "0"}, {"drift", "two", "--report", "sarif=" + dir},
	} {
		m.run(2, append(wrong, "-n", ns)...)
	}
}

// checkStackReports checks the report files of the helmfile: a suite for each release, and results at the line of theirs.
func checkStackReports(t *testing.T, file, junit, sarif string) {
	t.Helper()
	xml, err := os.ReadFile(junit)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<testsuite name="drifting/one" time="0.000" tests="`, `" failures="0" errors="0"`, `<testsuite name="drifting/two" time="0.000" tests="2" failures="2"`} {
		if !strings.Contains(string(xml), want) {
			t.Errorf("JUnit lacks %s:\n%s", want, xml)
		}
	}
	text, err := os.ReadFile(sarif)
	if err != nil {
		t.Fatal(err)
	}
	place := `"uri":"` + file + `"},"region":{"startLine":3}`
	if got := strings.Count(strings.Join(strings.Fields(string(text)), ""), place); got != 3 {
		t.Errorf("SARIF names line 3 of the helmfile %d times:\n%s", got, text)
	}
}

// TestReleaseInATerminatingNamespace: while a namespace is being deleted, status and drift say so. Objects and records that are gone
// because of that are no drift, and nothing is repaired.
func TestReleaseInATerminatingNamespace(t *testing.T) {
	t.Parallel()
	const ns = "terminating-release"
	client, m := inNamespace(t, ns), newMachine(t)
	m.run(0, "install", "s", filepath.Join(data, "charts", "plain"), "-n", ns, "--no-tui")
	stuck := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "stuck", Finalizers: []string{"example.com/stuck"}}}
	if _, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), stuck, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		none := []byte(`{"metadata":{"finalizers":null}}`)
		_, _ = client.CoreV1().ConfigMaps(ns).Patch(context.Background(), "stuck", types.MergePatchType, none, metav1.PatchOptions{})
	})
	if err := client.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if left, err := client.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"}); err == nil && len(left.Items) == 0 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("the records stay: %v", err)
		}
	}
	const want = "somebody deletes namespace " + ns
	for _, args := range [][]string{{"status", "s"}, {"drift", "s"}, {"drift", "s", "--repair"}} {
		out, ends := m.start(append(args, "-n", ns)...)
		if code := ends(); !strings.Contains(out.String(), want) || args[0] == "drift" && (code != 1 || strings.Contains(out.String(), "gone")) {
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
	}
}

// TestRepairsWaitForApprovals (R42a, R54): a repair of a group that asks for an approval waits for it, but not for ever; --approve
// gives it beforehand, for one release.
func TestRepairsWaitForApprovals(t *testing.T) {
	t.Parallel()
	const ns = "repairs-wait"
	client, m, dir := inNamespace(t, ns), newMachine(t), t.TempDir()
	writeFiles(t, dir, map[string]string{
		"Chart.yaml":         "apiVersion: v2\nname: own\nversion: 1.0.0\n",
		"templates/all.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf, annotations: {lockstep/approve: switches over}}\n",
	})
	m.run(0, "install", "s", dir, "-n", ns, "--no-tui", "--approve", "~")
	if err := client.CoreV1().ConfigMaps(ns).Delete(t.Context(), "conf", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, limit := range [][]string{{"--approval-timeout", "1s"}, {"--timeout", "8s"}} { // which is the default of the other, and leaves a busy machine time to compare
		if s := m.run(3, append([]string{"drift", "s", "-n", ns, "--repair"}, limit...)...); !strings.Contains(s, "not approved within "+limit[1]+" (--approval-timeout)") {
			t.Errorf("%v: %s", limit, s)
		}
	}
	if s := m.run(0, "drift", "s", "-n", ns, "--repair", "--approve", "~"); !strings.Contains(s, "1 group done: 1 created") {
		t.Errorf("approved: %s", s)
	}
	for _, wrong := range [][]string{{"s", "--approve", "~"}, {"s", "other", "--repair", "--approve", "~"}, {"-A", "--repair", "--approve", "~"}, {"s", "--repair", "--approval-timeout", "-1s"}} {
		m.run(2, append(append([]string{"drift"}, wrong...), "-n", ns)...)
	}
}

// TestRepairOfManyNamespaces (S18): a repair of a helmfile repairs each release in its own namespace, and leaves one of the same name in the
// namespace of the command alone. One that cannot be repaired does not keep the others from it, and is named.
func TestRepairOfManyNamespaces(t *testing.T) {
	t.Parallel()
	const own, first, second = "default", "repair-first", "repair-second"
	client, m, dir := inNamespace(t, first), newMachine(t), t.TempDir()
	writeFiles(t, dir, map[string]string{
		"c/Chart.yaml":         "apiVersion: v2\nname: c\nversion: 1.0.0\n",
		"c/templates/all.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: repaired-many}\ndata: {a: recorded}\n",
		"helmfile.yaml":        "releases:\n- {name: broken, namespace: " + first + ", chart: ./c}\n- {name: repaired-zz, namespace: " + second + ", chart: ./c}\n",
	})
	file := filepath.Join(dir, "helmfile.yaml")
	m.run(0, "install", "repaired-zz", filepath.Join(dir, "c"), "-n", own, "--no-tui")
	defer m.run(0, "uninstall", "repaired-zz", "-n", own, "--no-tui")
	m.run(0, "up", "-f", file, "--no-tui")
	for _, ns := range []string{own, first, second} {
		if _, err := client.CoreV1().ConfigMaps(ns).Patch(t.Context(), "repaired-many", types.MergePatchType, []byte(`{"data":{"a":"changed"}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.CoreV1().ConfigMaps(first).Patch(t.Context(), "repaired-many", types.MergePatchType, []byte(`{"immutable":true}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if s := m.run(1, "drift", "-f", file, "--repair"); !strings.Contains(s, "1 of 2 releases were not repaired: "+first+"/broken") {
		t.Errorf("what was not repaired: %s", s)
	}
	for ns, want := range map[string]string{own: "changed", first: "changed", second: "recorded"} {
		if conf, err := client.CoreV1().ConfigMaps(ns).Get(t.Context(), "repaired-many", metav1.GetOptions{}); err != nil || conf.Data["a"] != want {
			t.Errorf("namespace %s: %v, %v, want %s", ns, conf.Data, err, want)
		}
	}
}

// checkDriftReports checks the report files of release two.
func checkDriftReports(t *testing.T, junit, sarif string) {
	t.Helper()
	var suites struct {
		Failures int `xml:"failures,attr"`
		Suites   []struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Name    string `xml:"name,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	text, err := os.ReadFile(junit)
	if err == nil {
		err = xml.Unmarshal(text, &suites)
	}
	if err != nil || suites.Failures != 2 || suites.Suites[0].Name != "drifting/two" || suites.Suites[0].Cases[1].Failure.Message != "gone" {
		t.Errorf("JUnit: %v: %s", err, text)
	}
	var log struct {
		Version string
		Runs    []struct {
			Results []struct {
				RuleID    string
				Locations []struct {
					PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
					LogicalLocations []struct{ FullyQualifiedName string }
				}
			}
		}
	}
	if text, err = os.ReadFile(sarif); err == nil {
		err = json.Unmarshal(text, &log)
	}
	if err != nil || log.Version != "2.1.0" || len(log.Runs[0].Results) != 3 {
		t.Fatalf("SARIF: %v: %s", err, text)
	}
	if r := log.Runs[0].Results; r[0].RuleID != "drift/changed" || r[2].RuleID != "drift/gone" || r[0].Locations[0].PhysicalLocation.ArtifactLocation.URI != "drifting/two" ||
		r[0].Locations[0].LogicalLocations[0].FullyQualifiedName != "drifting/two/ConfigMap/conf/data/mine" {
		t.Errorf("SARIF: %s", text)
	}
}

// TestDriftOfTakenObject (S18): an object that another release has taken over is shown as that one's, and a repair leaves it alone, but
// repairs the others. Nothing is offered if it could repair nothing.
func TestDriftOfTakenObject(t *testing.T) {
	t.Parallel()
	const ns = "drift-taken"
	client, m, dir := inNamespace(t, ns), newMachine(t), t.TempDir()
	object := func(name, v string) string {
		return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {v: \"" + v + "\"}\n"
	}
	writeFiles(t, dir, map[string]string{
		"a/Chart.yaml": "apiVersion: v2\nname: a\nversion: 1.0.0\n", "a/templates/all.yaml": object("x", "1") + object("z", "1"),
		"b/Chart.yaml": "apiVersion: v2\nname: b\nversion: 1.0.0\n", "b/templates/all.yaml": object("x", "2"),
	})
	m.run(0, "install", "a", filepath.Join(dir, "a"), "-n", ns, "--no-tui")
	m.run(0, "install", "b", filepath.Join(dir, "b"), "-n", ns, "--no-tui", "--take-ownership")
	const taken, next = "  ConfigMap/x belongs to release b in namespace drift-taken now\n", "next: "
	if s := m.run(2, "drift", "a", "-n", ns, "--detailed-exitcode"); !strings.Contains(s, taken) || strings.Contains(s, next) {
		t.Errorf("one object is taken:\n%s", s)
	}
	testcluster.Get(t).Apply(t, testcluster.Parse(t, strings.Replace(object("z", "3"), "name: z", "name: z, namespace: "+ns, 1))...)
	if s := m.run(0, "drift", "a", "-n", ns); !strings.Contains(s, taken) || !strings.Contains(s, next) {
		t.Errorf("another one differs:\n%s", s)
	}
	s := m.run(2, "drift", "a", "-n", ns, "--repair", "--detailed-exitcode")
	if !strings.Contains(s, "ConfigMap/x is not repaired: it belongs to release b") || !strings.Contains(s, "changed: ConfigMap/z\n") {
		t.Errorf("the repair: %s", s)
	}
	for name, want := range map[string]string{"x": "2", "z": "1"} {
		if c, err := client.CoreV1().ConfigMaps(ns).Get(t.Context(), name, metav1.GetOptions{}); err != nil || c.Data["v"] != want {
			t.Errorf("%s is %v, %v", name, c, err)
		}
	}
}
