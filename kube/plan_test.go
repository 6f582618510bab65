package kube

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/kube/charts"
)

// changes plans an operation and returns what it would do, "group object
// action" each, with the diffs by object.
func (r *rig) changes(op *Operation, err error) (lines []string, diffs map[string]Change) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	all, err := op.Changes(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	diffs = map[string]Change{}
	for _, c := range all {
		lines = append(lines, c.Group+" "+c.Object.String()+" "+string(c.Action))
		diffs[c.Object.String()] = c
	}
	return lines, diffs
}

const secretText = "type: Opaque\nstringData:\n  same: topsecret-same\n  other: "

// TestPlanOfEveryOperation says what each operation would do, in order, and
// writes nothing.
func TestPlanOfEveryOperation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hook := map[string]string{"helm.sh/hook": "pre-upgrade,post-delete"}
	first := one(t,
		configMap("stays", group("a")), configMap("changes", group("b", "a"), "color: red"),
		object("v1/Secret/token", group("b", "a"), secretText+"topsecret-old"),
		configMap("goes", nil), configMap("kept", map[string]string{"helm.sh/resource-policy": "keep"}), job("hook", hook, "0s"))
	second := one(t,
		configMap("stays", group("a")), configMap("changes", group("b", "a"), "color: green"),
		object("v1/Secret/token", group("b", "a"), secretText+"topsecret-new"),
		configMap("comes", nil), job("hook", hook, "0s"))

	start := time.Now()
	lines, _ := r.changes(r.install("plain", use(first, nil)))
	want := []string{"edge:a ConfigMap/stays create", "edge:b Secret/token create", "edge:b ConfigMap/changes create", "edge:(unsequenced) ConfigMap/goes create", "edge:(unsequenced) ConfigMap/kept create"}
	if !slices.Equal(lines, want) {
		t.Errorf("install: %q, want %q", lines, want)
	}
	if w := r.written(start); len(w) > 0 {
		t.Errorf("the plan of an install wrote %v", w)
	}
	r.mustRun(r.install("plain", use(first, nil)))

	start = time.Now()
	if lines, _ = r.changes(r.upgrade("plain", useUp(first, nil))); !slices.ContainsFunc(lines, func(s string) bool { return strings.HasSuffix(s, "Job/hook hook") }) ||
		slices.ContainsFunc(lines, func(s string) bool { return !strings.HasSuffix(s, " unchanged") && !strings.HasSuffix(s, " hook") }) {
		t.Errorf("upgrade to the same: %q", lines)
	}
	lines, diffs := r.changes(r.upgrade("plain", useUp(second, nil)))
	want = []string{"pre-upgrade:Job/hook Job/hook hook",
		"edge:a ConfigMap/stays unchanged", "edge:b Secret/token change", "edge:b ConfigMap/changes change", "edge:(unsequenced) ConfigMap/comes create",
		"edge:(unsequenced) ConfigMap/kept keep", "edge:(unsequenced) ConfigMap/goes delete"}
	if !slices.Equal(lines, want) {
		t.Errorf("upgrade: %q, want %q", lines, want)
	}
	if d := diffs["ConfigMap/changes"].Diff; !strings.Contains(d, "\n-  color: red\n") || !strings.Contains(d, "\n+  color: green\n") || strings.Contains(d, "managedFields") || strings.Contains(d, "resourceVersion") {
		t.Errorf("diff %s", d)
	}
	if d := diffs["Secret/token"].Diff; !strings.Contains(d, "-  other: (hidden)\n") || !strings.Contains(d, "+  other: (hidden, changed)\n") || !strings.Contains(d, "   same: (hidden)\n") || strings.Contains(d, "dG9wc2VjcmV0") || strings.Contains(d, "topsecret") {
		t.Errorf("diff of a Secret %s", d)
	}
	if w := r.written(start); len(w) > 0 {
		t.Errorf("the plan of an upgrade wrote %v", w)
	}
	r.mustRun(r.upgrade("plain", useUp(second, nil)))

	start = time.Now()
	lines, _ = r.changes(r.rollback(1))
	want = []string{"edge:a ConfigMap/stays unchanged", "edge:b Secret/token change", "edge:b ConfigMap/changes change", "edge:(unsequenced) ConfigMap/goes create",
		"edge:(unsequenced) ConfigMap/kept unchanged", "edge:(unsequenced) ConfigMap/comes delete"}
	if !slices.Equal(lines, want) {
		t.Errorf("rollback: %q, want %q", lines, want)
	}
	if err := r.cluster.CoreV1().ConfigMaps(r.namespace).Delete(t.Context(), "comes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	lines, _ = r.changes(r.uninstall())
	want = []string{"edge:(unsequenced) ConfigMap/comes absent", "edge:b ConfigMap/changes delete", "edge:b Secret/token delete", "edge:a ConfigMap/stays delete", "post-delete:Job/hook Job/hook hook"}
	slices.Sort(lines)
	slices.Sort(want)
	if !slices.Equal(lines, want) {
		t.Errorf("uninstall: %q, want %q", lines, want)
	}
	if w := r.written(start); len(w) > 0 {
		t.Errorf("plans wrote %v", w)
	}
}

// TestPlanOfWhatIsRefused tells of changes that the API server would refuse,
// and what of the cluster is not the chart's.
func TestPlanOfWhatIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := one(t, configMap("a", nil, "color: red"), job("fixed", nil, "0s"))
	r.mustRun(r.install("plain", use(before, nil)))
	_, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"color":"blue","more":"1"}}`), metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		t.Fatal(err)
	}
	after := one(t, configMap("a", nil, "color: green"), job("fixed", nil, "5s"))
	_, diffs := r.changes(r.upgrade("plain", useUp(after, nil)))
	if c := diffs["ConfigMap/a"]; c.Action != ActionRefuse || !strings.Contains(c.Message, "somebody") || !strings.Contains(c.Message, "--force-conflicts") {
		t.Errorf("%+v", c)
	}
	if c := diffs["Job/fixed"]; c.Action != ActionRefuse || !strings.Contains(c.Message, "immutable") {
		t.Errorf("%+v", c)
	}
	_, diffs = r.changes(r.upgrade("plain", useUp(after, func(u *Upgrade) { u.ForceConflicts = true })))
	if c := diffs["ConfigMap/a"]; c.Action != ActionChange || !strings.Contains(c.Diff, "-  color: blue\n+  color: green\n") || !strings.Contains(c.Diff, "   more: \"1\"\n") {
		t.Errorf("%+v", c)
	}
}

// TestPlanOfWhatCannotBeCreated finds objects that the API server would not
// take, and those that lie in a namespace which nothing brings, but not those that
// only need what comes before them.
func TestPlanOfWhatCannotBeCreated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	needy := object("v1/Pod/needy", nil, "spec: {serviceAccountName: later, containers: [{name: main, image: example/app:1.0}]}")
	elsewhere := strings.Replace(configMap("elsewhere", nil), "name: elsewhere", "name: elsewhere\n  namespace: not-there-yet", 1)
	start := time.Now()
	_, diffs := r.changes(r.install("plain", use(one(t, needy, elsewhere,
		object("v1/Service/wrong", nil, "spec: {ports: [{port: 99999}]}"),
		object("v1/ServiceAccount/later", nil),
		object("v1/Secret/pin", nil, "stringData: {pin: 48213377}"),
		deployment("typo", nil, "0s", "  replicsa: 2")), func(i *Install) { i.PlanOnly = true })))
	want := map[string]string{"Pod/needy": "", "ConfigMap/elsewhere": "namespace not-there-yet", "ServiceAccount/later": "", "Service/wrong": "99999", "Deployment/typo": "replicsa", "Secret/pin": ".stringData.pin: expected string"}
	if len(diffs) != len(want) {
		t.Errorf("%d changes, want %d", len(diffs), len(want))
	}
	for object, message := range want {
		c := diffs[object]
		if message == "" && c.Action != ActionCreate || message != "" && (c.Action != ActionRefuse || !strings.Contains(c.Message, message)) {
			t.Errorf("%+v", c)
		}
	}
	if m := diffs["Secret/pin"].Message; strings.Contains(m, "48213377") {
		t.Errorf("a value of a Secret is told: %s", m)
	}
	if w := r.written(start); len(w) > 0 {
		t.Errorf("the plan wrote %v", w)
	}
}

// TestTemplateForKubectl applies what template prints as kubectl would, as a dry
// run: the API server takes every object (R3, R35).
func TestTemplateForKubectl(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, chart := range []string{"hip0025-groups-complete", "hip9999-layers"} {
		rendered, err := charts.Render(t.Context(), loadChart(t, chart), nil, charts.RenderOptions{Release: "t", Namespace: r.namespace})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := rendered.Plan()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := rendered.Print(&out, plan, charts.PrintOptions{}); err != nil {
			t.Fatal(err)
		}
		docs, _, err := charts.Parse(out.String(), chart)
		if err != nil || len(docs) < 3 {
			t.Fatalf("%d objects, %v", len(docs), err)
		}
		mapper, err := r.client.Getter.ToRESTMapper()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			m, err := mapper.RESTMapping(d.Object.GroupVersionKind().GroupKind())
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.client.Dynamic.Resource(m.Resource).Namespace(r.namespace).Apply(t.Context(), d.Object.GetName(), d.Object, metav1.ApplyOptions{FieldManager: "kubectl", DryRun: []string{"All"}})
			if err != nil {
				t.Errorf("%s: %s/%s: %v", chart, d.Object.GetKind(), d.Object.GetName(), err)
			}
		}
	}
}
