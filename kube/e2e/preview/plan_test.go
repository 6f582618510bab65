package preview

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/inspect"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

const secretText = "type: Opaque\nstringData:\n  same: topsecret-same\n  other: "

// TestPlanOfEveryOperation plans an install, upgrades, a rollback and an uninstall. Plans write nothing.
func TestPlanOfEveryOperation(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	hook := map[string]string{"helm.sh/hook": "pre-upgrade,post-delete"}
	first := rig.ChartOf(t,
		rig.ConfigMap("stays", rig.Group("a")), rig.ConfigMap("changes", rig.Group("b", "a"), "color: red"),
		rig.Object("v1/Secret/token", rig.Group("b", "a"), secretText+"topsecret-old"),
		rig.ConfigMap("goes", nil), rig.ConfigMap("kept", map[string]string{"helm.sh/resource-policy": "keep"}), rig.Job("hook", hook, "0s"))
	second := rig.ChartOf(t,
		rig.ConfigMap("stays", rig.Group("a")), rig.ConfigMap("changes", rig.Group("b", "a"), "color: green"),
		rig.Object("v1/Secret/token", rig.Group("b", "a"), secretText+"topsecret-new"),
		rig.ConfigMap("comes", nil), rig.Job("hook", hook, "0s"))

	start := time.Now()
	lines, _ := r.Changes(r.Install("plain", rig.UseChart(first, nil)))
	want := []string{"edge:a ConfigMap/stays create", "edge:b Secret/token create", "edge:b ConfigMap/changes create", "edge:(unsequenced) ConfigMap/goes create", "edge:(unsequenced) ConfigMap/kept create"}
	if !slices.Equal(lines, want) {
		t.Errorf("install: %q, want %q", lines, want)
	}
	if w := r.WrittenSince(start); len(w) > 0 {
		t.Errorf("the plan of an install wrote %v", w)
	}
	r.MustRun(r.Install("plain", rig.UseChart(first, nil)))

	start = time.Now()
	if lines, _ = r.Changes(r.Upgrade("plain", rig.UseChart(first, nil))); !slices.ContainsFunc(lines, func(s string) bool { return strings.HasSuffix(s, "Job/hook hook") }) ||
		slices.ContainsFunc(lines, func(s string) bool { return !strings.HasSuffix(s, " unchanged") && !strings.HasSuffix(s, " hook") }) {
		t.Errorf("upgrade to the same: %q", lines)
	}
	lines, diffs := r.Changes(r.Upgrade("plain", rig.UseChart(second, nil)))
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
	if w := r.WrittenSince(start); len(w) > 0 {
		t.Errorf("the plan of an upgrade wrote %v", w)
	}
	r.MustRun(r.Upgrade("plain", rig.UseChart(second, nil)))

	start = time.Now()
	lines, _ = r.Changes(r.Rollback(1))
	want = []string{"edge:a ConfigMap/stays unchanged", "edge:b Secret/token change", "edge:b ConfigMap/changes change", "edge:(unsequenced) ConfigMap/goes create",
		"edge:(unsequenced) ConfigMap/kept unchanged", "edge:(unsequenced) ConfigMap/comes delete"}
	if !slices.Equal(lines, want) {
		t.Errorf("rollback: %q, want %q", lines, want)
	}
	if err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Delete(t.Context(), "comes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	lines, _ = r.Changes(r.Uninstall())
	want = []string{"edge:(unsequenced) ConfigMap/comes absent", "edge:b ConfigMap/changes delete", "edge:b Secret/token delete", "edge:a ConfigMap/stays delete", "post-delete:Job/hook Job/hook hook"}
	slices.Sort(lines)
	slices.Sort(want)
	if !slices.Equal(lines, want) {
		t.Errorf("uninstall: %q, want %q", lines, want)
	}
	if w := r.WrittenSince(start); len(w) > 0 {
		t.Errorf("plans wrote %v", w)
	}
}

// TestPlanShowsRefusedChanges: a plan shows changes that the API server would refuse: of fields of another manager, and of
// immutable fields.
func TestPlanShowsRefusedChanges(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	before := rig.ChartOf(t, rig.ConfigMap("a", nil, "color: red"), rig.Job("fixed", nil, "0s"))
	r.MustRun(r.Install("plain", rig.UseChart(before, nil)))
	_, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"color":"blue","more":"1"}}`), metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		t.Fatal(err)
	}
	after := rig.ChartOf(t, rig.ConfigMap("a", nil, "color: green"), rig.Job("fixed", nil, "5s"))
	_, diffs := r.Changes(r.Upgrade("plain", rig.UseChart(after, func(u *kube.Deploy) { u.PlanOnly = true })))
	if c := diffs["ConfigMap/a"]; c.Action != inspect.Refuse || !strings.Contains(c.Message, "somebody") || !strings.Contains(c.Message, "--force-conflicts") {
		t.Errorf("%+v", c)
	}
	if c := diffs["Job/fixed"]; c.Action != inspect.Refuse || !strings.Contains(c.Message, "immutable") {
		t.Errorf("%+v", c)
	}
	_, diffs = r.Changes(r.Upgrade("plain", rig.UseChart(after, func(u *kube.Deploy) { u.ForceConflicts, u.PlanOnly = true, true })))
	if c := diffs["ConfigMap/a"]; c.Action != inspect.Modify || !strings.Contains(c.Diff, "-  color: blue\n+  color: green\n") || !strings.Contains(c.Diff, "   more: \"1\"\n") {
		t.Errorf("%+v", c)
	}
}

// TestPlanOfClientSideRollback: a rollback with --server-side=false overwrites fields of other managers, so its plan shows
// a change. With server-side apply the API server would refuse it.
func TestPlanOfClientSideRollback(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustRun(r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil, "color: red")), nil)))
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil, "color: green")), nil)))
	r.PatchConfigMap("a", `{"data":{"color":"blue"}}`)
	for serverSide, want := range map[string]inspect.Action{"auto": inspect.Refuse, "false": inspect.Modify} {
		common := r.Common()
		common.PlanOnly = true
		_, changes := r.Changes(r.Client.PrepareRollback(t.Context(), kube.Rollback{Common: common, Revision: 1, ServerSide: serverSide}))
		if c := changes["ConfigMap/a"]; c.Action != want {
			t.Errorf("--server-side=%s: action %s, want %s: %s", serverSide, c.Action, want, c.Message)
		}
	}
}

// TestPlanShowsInvalidObjects: a plan reports objects that the API server would refuse, and
// objects in a namespace that nothing creates, but not objects that only need earlier ones.
func TestPlanShowsInvalidObjects(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	needy := rig.Object("v1/Pod/needy", nil, "spec: {serviceAccountName: later, containers: [{name: main, image: example/app:1.0}]}")
	elsewhere := strings.Replace(rig.ConfigMap("elsewhere", nil), "name: elsewhere", "name: elsewhere\n  namespace: not-there-yet", 1)
	start := time.Now()
	_, diffs := r.Changes(r.Install("plain", rig.UseChart(rig.ChartOf(t, needy, elsewhere,
		rig.Object("v1/Service/wrong", nil, "spec: {ports: [{port: 99999}]}"),
		rig.Object("v1/ServiceAccount/later", nil),
		rig.Object("v1/Secret/pin", nil, "stringData: {pin: 48213377}"),
		rig.Deployment("typo", nil, "0s", "  replicsa: 2")), func(i *kube.Deploy) { i.PlanOnly = true })))
	want := map[string]string{"Pod/needy": "", "ConfigMap/elsewhere": "namespace not-there-yet", "ServiceAccount/later": "", "Service/wrong": "99999", "Deployment/typo": "replicsa", "Secret/pin": "Secret/pin: stringData.pin must be a string, but is a number; quote it"}
	if len(diffs) != len(want) {
		t.Errorf("%d changes, want %d", len(diffs), len(want))
	}
	for object, message := range want {
		c := diffs[object]
		if message == "" && c.Action != inspect.Create || message != "" && (c.Action != inspect.Refuse || !strings.Contains(c.Message, message)) {
			t.Errorf("%+v", c)
		}
	}
	if m := diffs["Secret/pin"].Message; strings.Contains(m, "48213377") {
		t.Errorf("the message shows a value of a Secret: %s", m)
	}
	if w := r.WrittenSince(start); len(w) > 0 {
		t.Errorf("the plan wrote %v", w)
	}
}

// TestTemplateForKubectl applies the output of template with a dry run, like kubectl: the API
// server accepts every object (R3, R35).
func TestTemplateForKubectl(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	for _, chart := range []string{"hip0025-groups-complete", "hip9999-layers"} {
		rendered, err := charts.Render(t.Context(), rig.LoadChart(t, chart), nil, charts.RenderOptions{Release: "t", Namespace: r.Namespace})
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
		docs, _, err := charts.ParseManifest(out.String(), chart)
		if err != nil || len(docs) < 3 {
			t.Fatalf("%d objects, %v", len(docs), err)
		}
		mapper, err := r.Client.Getter.ToRESTMapper()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			m, err := mapper.RESTMapping(d.Object.GroupVersionKind().GroupKind())
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Client.Dynamic.Resource(m.Resource).Namespace(r.Namespace).Apply(t.Context(), d.Object.GetName(), d.Object, metav1.ApplyOptions{FieldManager: "kubectl", DryRun: []string{"All"}})
			if err != nil {
				t.Errorf("%s: %s/%s: %v", chart, d.Object.GetKind(), d.Object.GetName(), err)
			}
		}
	}
}
