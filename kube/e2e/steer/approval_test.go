package steer

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// withApproval returns annotations with a reason to ask for an approval.
func withApproval(reason string, annotations map[string]string) map[string]string {
	m := maps.Clone(annotations)
	m["lockstep/approve"] = reason
	return m
}

// approvalChart has a hook and two groups. Chart.yaml, the hook and the second group ask for an approval. With broken, the
// second group cannot be applied.
func approvalChart(t *testing.T, version string, broken bool) *charts.Chart {
	schema := rig.ConfigMap("schema", withApproval("drops table users", rig.Group("schema", "base")), "v: "+version)
	if broken {
		schema += "\n---\n" + rig.Job("migrate", rig.Group("schema"), "10ms, sandbox/exit-code: \"1\"", "  backoffLimit: 0")
	}
	return rig.MakeChart(t, rig.Files{
		"Chart.yaml": "apiVersion: v2\nname: asks\nversion: 1.0.0\nannotations: {lockstep/approve: a new major version}\n",
		"templates/all.yaml": strings.Join([]string{
			rig.Job("backup", map[string]string{"helm.sh/hook": "pre-install,pre-upgrade"}, "10ms"),
			rig.ConfigMap("base", rig.Group("base"), "v: "+version), schema,
		}, "\n---\n"),
	})
}

// TestNothingIsWrittenBeforeItsApproval (R42a): what Chart.yaml asks for comes before hooks and groups, and is asked once; a
// group's own comes before its first write, by the audit log. The record of the release says who approved. The rollback of a
// failed upgrade asks nobody.
func TestNothingIsWrittenBeforeItsApproval(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	run := func(op *kube.Operation, err error) rig.Outcome {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		written := func(name string) bool {
			return slices.ContainsFunc(r.Writes(), func(w string) bool { return strings.Contains(w, name) })
		}
		first := op.Info().Revision == 1
		return r.Run(op, func(e event.Event) {
			if e.Kind != event.KindGroup || e.Code != event.Unapproved {
				return
			}
			name := e.Group[strings.LastIndexAny(e.Group, "/:")+1:]
			if first && (written(name) || name == "backup" && written("base")) {
				t.Errorf("written before the approval of %s: %v", e.Group, r.Writes())
			}
			op.Command(event.Command{Name: event.Approve, Group: e.Group, By: "ann"})
		})
	}
	use := func(version string, broken bool) func(*kube.Deploy) {
		return rig.UseChart(approvalChart(t, version, broken), func(d *kube.Deploy) { d.RollbackOnFailure, d.WaitForJobs = true, kube.AllJobs })
	}
	out := run(r.Install("shop", use("one", false)))
	want := []string{"asks", "asks:schema"}
	var of []string
	for _, a := range out.State.Approvals {
		if of = append(of, a.Of); a.By != "ann" {
			t.Errorf("%s approved by %q", a.Of, a.By)
		}
	}
	if out.Err != nil || !slices.Equal(of, want) {
		t.Fatalf("approved %v, want %v; %v", of, want, out.Err)
	}
	stored := r.OpenView(0).View.Course().Approvals
	if len(stored) != 2 || stored[1].Of != "asks:schema" || stored[1].By != "ann" || stored[1].Reason != "drops table users" || stored[1].At.IsZero() {
		t.Errorf("the record has the approvals %+v", stored)
	}
	out = run(r.Upgrade("shop", use("two", true)))
	if out.Err == nil || len(out.State.Approvals) != 2 || r.ConfigMapData("base")["v"] != "one" {
		t.Errorf("after the failed upgrade: %v, approvals %v, base %v", out.Err, out.State.Approvals, r.ConfigMapData("base"))
	}
}

// TestApprovalBeforehand (R42a): --approve starts the named groups without asking; --approve-before asks for a group of any
// chart, and names that match no group are refused.
func TestApprovalBeforehand(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	out := r.Deploy("shop", rig.UseChart(approvalChart(t, "one", false), func(d *kube.Deploy) { d.Approve = []string{"base", "schema", "kind=Job"} }))
	if len(out.State.Approvals) != 2 || !strings.HasSuffix(out.State.Approvals[0].By, ", --approve") {
		t.Errorf("approvals %+v", out.State.Approvals)
	}
	r = rig.New(t)
	two := rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("b", rig.Group("b", "a")))
	op := r.Must(r.Install("shop", rig.UseChart(two, func(d *kube.Deploy) { d.ApproveBefore = []string{"b"} })))
	out = r.Run(op, func(e event.Event) {
		if e.Kind == event.KindRun && e.Code == event.Unapproved {
			if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"a"}) {
				t.Errorf("before the approval: %v", got)
			}
			op.Command(event.Command{Name: event.Approve})
		}
	})
	if out.Err != nil || len(out.State.Approvals) != 1 {
		t.Errorf("%v, approvals %+v", out.Err, out.State.Approvals)
	}
	for _, change := range []func(*kube.Deploy){
		func(d *kube.Deploy) { d.ApproveBefore = []string{"nonesuch"} }, func(d *kube.Deploy) { d.Approve = []string{"nonesuch"} },
	} {
		if _, err := r.Upgrade("shop", rig.UseChart(two, change)); err == nil || !strings.Contains(err.Error(), "nonesuch") {
			t.Errorf("an unknown group: %v", err)
		}
	}
}

// TestApprovalsNeedNoOrder (R27, R42a): what Chart.yaml, objects and hooks ask for holds without an order as well: with each --wait, and
// for a revision by Helm that a rollback restores or a repair brings back.
func TestApprovalsNeedNoOrder(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	reasons := func(op *kube.Operation, err error) (all []string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range op.Approvals() {
			all = append(all, a.Reason)
		}
		return all
	}
	want := []string{"a new major version", "drops table users"}
	use := func(change func(*kube.Deploy)) func(*kube.Deploy) {
		return rig.UseChart(approvalChart(t, "one", false), change)
	}
	for _, wait := range []string{"ordered", "watcher", "hookOnly", "legacy"} {
		if got := reasons(r.Install("shop", use(func(d *kube.Deploy) { d.Wait = wait }))); !slices.Equal(got, want) {
			t.Errorf("--wait=%s asks for %v, want %v", wait, got, want)
		}
	}
	op := r.Must(r.Install("shop", use(func(d *kube.Deploy) { d.Wait = "watcher" })))
	if out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindRun && e.Code == event.Unapproved {
			if got := r.ConfigMaps(r.Namespace); len(got) > 0 {
				t.Errorf("before the approval: %v", got)
			}
			op.Command(event.Command{Name: event.Approve})
		}
	}); out.Err != nil || len(out.State.Approvals) != 2 {
		t.Fatalf("%v, approvals %+v", out.Err, out.State.Approvals)
	}
	dir := rig.MakeDir(t, rig.Files{
		"Chart.yaml":         "apiVersion: v2\nname: asks\nversion: 1.0.0\nannotations: {lockstep/approve: a new major version}\n",
		"templates/all.yaml": rig.ConfigMap("schema", withApproval("drops table users", map[string]string{}), "v: {{ .Values.v }}"),
	})
	r.MustHelm("upgrade", "t", dir, "--force-conflicts", "--set", "v=two")
	r.PatchConfigMap("schema", `{"data":{"v":"other"}}`)
	if got := reasons(r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()})); !slices.Equal(got, want) {
		t.Errorf("the repair of a revision by Helm asks for %v, want %v", got, want)
	}
	r.MustHelm("upgrade", "t", dir, "--force-conflicts", "--set", "v=three")
	for _, to := range []int{1, 2} {
		if got := reasons(r.Rollback(to)); !slices.Equal(got, want) {
			t.Errorf("the rollback to revision %d asks for %v, want %v", to, got, want)
		}
	}
}

// TestApprovalsOfSubcharts (R42a): what the Chart.yaml of a subchart asks for comes before its hooks and crds/ as well, in order or not,
// also of a subchart with nothing else, and not before those of other charts.
func TestApprovalsOfSubcharts(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	hook := func(name, scope string) string {
		return rig.ConfigMap(name, map[string]string{"helm.sh/hook": "pre-install", "lockstep/hook-scope": scope})
	}
	const crd = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: asks.subcharts.example}, spec: {group: subcharts.example, scope: Cluster,
  names: {kind: Ask, plural: asks}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`
	chart := rig.MakeChart(t, rig.Files{
		"Chart.yaml":                   "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"templates/all.yaml":           rig.ConfigMap("own", map[string]string{}) + "\n---\n" + hook("own-hook", ""),
		"charts/db/Chart.yaml":         "apiVersion: v2\nname: db\nversion: 1.0.0\nannotations: {lockstep/approve: of db}\n",
		"charts/db/templates/all.yaml": rig.ConfigMap("data", map[string]string{}) + "\n---\n" + hook("scoped", "subchart"),
		"charts/tool/Chart.yaml":       "apiVersion: v2\nname: tool\nversion: 1.0.0\nannotations: {lockstep/approve: of tool}\n",
		"charts/tool/templates/a.yaml": hook("tool-hook", ""),
		"charts/tool/crds/a.yaml":      crd,
	})
	for _, wait := range []string{"ordered", "watcher"} {
		op := r.Must(r.Install("shop", rig.UseChart(chart, func(d *kube.Deploy) { d.Wait = wait })))
		asked := map[string][]string{}
		for g := range event.Groups(op.Phases()) {
			for _, a := range g.Approve {
				asked[a.Reason] = append(asked[a.Reason], g.ID)
			}
		}
		want := map[string][]string{"of tool": {"shop:crds/", "pre-install:ConfigMap/tool-hook"}, "of db": {"pre-install:ConfigMap/scoped", "shop/db:(unsequenced)"}}
		if wait == "watcher" {
			want["of db"][1] = "shop:(unsequenced)"
		}
		if !maps.EqualFunc(asked, want, slices.Equal[[]string]) {
			t.Errorf("--wait=%s: asked for %v, want %v", wait, asked, want)
		}
	}
}
