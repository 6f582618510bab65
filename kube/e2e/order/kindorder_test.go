package order

import (
	"slices"
	"strings"
	"testing"
	"time"

	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"

	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/auditlog"
)

// TestUnsequencedTreeInHelmsOrder installs a tree of charts without annotations, whose Pods need objects of other charts.
// All objects of the tree are written in Helm's order of kinds (R15a).
func TestUnsequencedTreeInHelmsOrder(t *testing.T) {
	t.Parallel()
	pod := func(name, account string) string {
		return rig.Object("v1/Pod/"+name, nil, "spec: {serviceAccountName: "+account+", containers: [{name: main, image: example/app:1.0}]}")
	}
	sub := func(name string) string { return "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n" }
	docs := func(docs ...string) string { return strings.Join(docs, "\n---\n") }
	role := "rules: [{apiGroups: [\"\"], resources: [configmaps], verbs: [get]}]"
	chart := rig.Files{
		"Chart.yaml": "apiVersion: v2\nname: edge\nversion: 1.0.0\ndependencies: [{name: one, version: 1.0.0}, {name: two, version: 1.0.0}]\n",
		"templates/all.yaml": docs(rig.Object("v1/ServiceAccount/parents", nil), rig.ConfigMap("parents", nil), rig.Object("rbac.authorization.k8s.io/v1/Role/parents", nil, role),
			rig.Deployment("parents", nil, "0s")),
		"charts/one/Chart.yaml":         sub("one"),
		"charts/one/templates/all.yaml": docs(pod("uses-parents", "parents"), pod("uses-twos", "twos"), rig.Object("v1/Secret/ones", nil), rig.Object("v1/Service/ones", nil, "spec: {ports: [{port: 80}]}")),
		"charts/two/Chart.yaml":         sub("two"),
		"charts/two/templates/all.yaml": docs(rig.Object("v1/ServiceAccount/twos", nil), pod("uses-its-own", "twos"), rig.Job("twos", nil, "0s"), rig.ConfigMap("twos", nil)),
	}
	r := rig.New(t)
	r.MustHelm("install", "t", rig.MakeDir(t, chart), "--wait=hookOnly") // the same chart, for comparison
	r.MustHelm("uninstall", "t", "--wait")
	for range 3 { // a wrong order may be right by chance
		start := time.Now()
		r.MustRun(r.Install("plain", rig.UseChart(rig.MakeChart(t, chart), nil)))
		var kinds []string
		log := r.Audit()
		slices.SortStableFunc(log, func(a, b auditlog.Event) int { return a.Received.Compare(b.Received) })
		for _, e := range log {
			if e.Received.After(start) && e.UserAgent == "lockstep" && e.Object.Namespace == r.Namespace && e.Verb != "delete" && !strings.HasPrefix(e.Object.Name, "sh.helm.") && e.Object.Subresource == "" {
				kinds = append(kinds, e.Object.Resource)
			}
		}
		order := map[string]int{}
		for n, kind := range releaseutil.InstallOrder {
			order[strings.ToLower(kind)+"s"] = n
		}
		if len(kinds) != 12 || !slices.IsSortedFunc(kinds, func(a, b string) int { return order[a] - order[b] }) {
			t.Errorf("%d objects were written in the order %v", len(kinds), kinds)
		}
		r.MustRun(r.Uninstall())
		r.Eventually("the Pods are gone", func() bool { return len(r.Objects()) == 0 })
	}
}
