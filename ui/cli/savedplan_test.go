package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"lockstep/kube/throwaway/testcluster"
)

// TestSavedPlanInTheCluster (R55): a plan that was saved on this machine is followed by a run in the cluster, whose account has only
// the permissions that rbac prints. The pod that replaces its pod goes on with the plan. Another plan is refused.
func TestSavedPlanInTheCluster(t *testing.T) {
	limitedParallel(t)
	const ns = "saved-plan"
	client := inNamespace(t, ns)
	m := newMachine(t)
	chart := writeChart(t, map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\n", "values.yaml": "v: one\nkey: " + canary + "\n",
		"templates/all.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: first, annotations: {helm.sh/resource-group: first}}
data: {v: "{{ .Values.v }}"}
---
apiVersion: v1
kind: Secret
metadata: {name: second, annotations: {helm.sh/resource-group: second, helm.sh/depends-on/resource-groups: '["first"]'}}
stringData: {key: "{{ .Values.key }}", v: "{{ .Values.v }}"}
`,
	})
	roles := m.run(0, "rbac", "s", chart, "-n", ns, "--in-cluster", "--service-account", "exact")
	testcluster.Get(t).Apply(t, testcluster.Parse(t, roles[strings.Index(roles, "apiVersion:"):])...)
	file := filepath.Join(t.TempDir(), "s.plan")
	in := []string{"-n", ns, "--settle", "0", "--in-cluster", "--service-account", "exact", "--no-tui", "--plan", file}
	m.run(0, "plan", "install", "s", chart, "-n", ns, "--settle", "0", "--out", file)
	if s := m.run(2, append([]string{"install", "s", chart, "--set", "v=other"}, in...)...); !strings.Contains(s, "ConfigMap/first: data.v is rendered differently") {
		t.Errorf("another value: %s", s)
	}
	out, ends := m.start(append([]string{"install", "s", chart, "--break-on", "second"}, in...)...)
	m.runUntil("ctl s status -n "+ns, "paused")
	replacePod(t, client, ns, "s")
	m.runUntil("ctl s status -n "+ns, "paused")
	m.run(0, "ctl", "s", "resume", "-n", ns)
	if code := ends(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}

	m.run(2, "plan", "upgrade", "s", chart, "--detailed-exitcode", "-n", ns, "--settle", "0", "--set", "v=two", "--out", file)
	upgrade := append([]string{"upgrade", "s", chart, "--set", "v=two"}, in...)
	m.run(0, upgrade...)
	if s := m.run(2, upgrade...); !strings.Contains(s, "a plan can be used once") {
		t.Errorf("a plan that is used twice: %s", s)
	}
}
