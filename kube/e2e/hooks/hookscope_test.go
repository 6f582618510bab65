package hooks

import (
	"slices"
	"strings"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// hookScopeChart returns a chart with a hook, Job/work, before the groups of subchart db, which waits for subchart base.
// The hook fails if exit is not 0. The group after it never becomes ready.
func hookScopeChart(policy, duration, exit string) rig.Files {
	hook := rig.Job("work", map[string]string{"helm.sh/hook": "pre-install,pre-upgrade", plan.AnnotationHookScope: plan.HookScopeSubchart, "helm.sh/hook-delete-policy": policy}, duration, "  backoffLimit: 0")
	return rig.Files{
		"Chart.yaml":                    "apiVersion: v2\nname: edge\nversion: 1.0.0\ndependencies:\n- {name: base, version: 1.0.0}\n- {name: db, version: 1.0.0, depends-on: [base]}\n",
		"charts/base/Chart.yaml":        "apiVersion: v2\nname: base\nversion: 1.0.0\n",
		"charts/base/templates/all.yml": rig.Deployment("base", nil, "300ms"),
		"charts/db/Chart.yaml":          "apiVersion: v2\nname: db\nversion: 1.0.0\n",
		"charts/db/templates/hook.yml":  strings.Replace(hook, "sandbox/run-duration: "+duration, "sandbox/run-duration: "+duration+`, sandbox/exit-code: "`+exit+`"`, 1),
		"charts/db/templates/all.yml": strings.Join([]string{strings.ReplaceAll(rig.Deployment("db", rig.Group("one"), "0s"), "example/app:1.0", "example/no-such-image:1"),
			rig.ConfigMap("after", rig.Group("two", "one"))}, "\n---\n"),
	}
}

// TestScopedHookCleanup aborts a run before, during and after a hook in the plan. An
// interrupted hook is deleted; a finished one is kept or deleted by its policy; one that has
// not started is not touched, even if an earlier revision left its object (R29, R43).
func TestScopedHookCleanup(t *testing.T) {
	const created, succeeded, failed = "before-hook-creation", "hook-succeeded", "hook-failed"
	ends := map[string]struct {
		duration, exit string
		abortAt        string   // the group whose start aborts the run
		stays          []string // the policies that keep the Job
	}{
		"abort in the hook":   {duration: "60s", exit: "0", abortAt: "pre-install:Job/work"},
		"abort after it":      {duration: "100ms", exit: "0", abortAt: "edge/db:one", stays: []string{created, failed}},
		"the hook fails":      {duration: "100ms", exit: "1", stays: []string{created, succeeded}},
		"a later group fails": {duration: "100ms", exit: "0", stays: []string{created, failed}},
	}
	for name, end := range ends {
		for _, policy := range []string{created, succeeded, failed} {
			t.Run(name+" "+policy, func(t *testing.T) {
				t.Parallel()
				r := rig.New(t)
				op := r.Must(r.Install("plain", rig.UseChart(rig.MakeChart(t, hookScopeChart(policy, end.duration, end.exit)), func(i *kube.Deploy) { i.ReadinessTimeout = 8 * time.Second })))
				out := r.Run(op, abortAt(r, op, end.abortAt))
				if want := map[bool]int{true: 3, false: 1}[end.abortAt != ""]; out.State.Exit != want || r.Status() != rcommon.StatusFailed {
					t.Errorf("exit %d, the release is %q: %s", out.State.Exit, r.Status(), out.State.Message)
				}
				want := []string(nil)
				if slices.Contains(end.stays, policy) {
					want = []string{"work"}
				}
				if got := r.Jobs(); !slices.Equal(got, want) {
					t.Errorf("remaining Jobs: %v, want %v", got, want)
				}
				if n := r.WriteCount("jobs", "work"); n != 2-len(want) {
					t.Errorf("%d writes to the Job: it must be created and, unless its policy keeps it, deleted", n)
				}
			})
		}
	}
}

// abortAt returns an event handler that aborts a run once, as soon as a hook's Job or another group runs.
func abortAt(r *rig.Rig, op *kube.Operation, group string) func(event.Event) {
	once := false
	return func(e event.Event) {
		job := e.Kind == event.KindObject && e.Object.Kind == "Job" && e.Status == event.InProgress
		if once || e.Group != group || !job && (strings.Contains(group, "Job/") || e.Kind != event.KindGroup || e.Status != event.Running) {
			return
		}
		once = true
		op.Command(event.Command{Name: event.Abort})
	}
}

// TestScopedHookOfAnEarlierRevision: a run that ends before a hook starts does not touch the
// hook's object of an earlier revision.
func TestScopedHookOfAnEarlierRevision(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := func(image string) rig.Files {
		fs := hookScopeChart("before-hook-creation", "100ms", "0")
		fs["charts/db/templates/all.yml"] = rig.ConfigMap("db", nil)
		fs["charts/base/templates/all.yml"] = strings.ReplaceAll(fs["charts/base/templates/all.yml"], "example/app:1.0", image)
		return fs
	}
	r.Deploy("plain", rig.UseChart(rig.MakeChart(t, chart("example/app:1.0")), nil))
	start := time.Now()
	op, err := r.Upgrade("plain", rig.UseChart(rig.MakeChart(t, chart("example/no-such-image:1")), func(u *kube.Deploy) { u.ReadinessTimeout = 2 * time.Second }))
	r.MustFail(op, err, "Deployment/base", "never started: pre-upgrade:Job/work")
	if got := r.Jobs(); !slices.Equal(got, []string{"work"}) {
		t.Errorf("remaining Jobs: %v", got)
	}
	if w := slices.DeleteFunc(r.WritesSince(start), func(s string) bool { return !strings.Contains(s, "jobs/") }); len(w) > 0 {
		t.Errorf("wrote %v", w)
	}
}

// scopedChart has subchart app, which waits for db, which waits for base. db has hooks around
// its groups, and the root chart has one around everything. change changes the annotations of
// db's post hook.
func scopedChart(change func(map[string]string)) rig.Files {
	hook := func(event, weight string) map[string]string {
		return map[string]string{"helm.sh/hook": event, plan.AnnotationHookScope: plan.HookScopeSubchart, "helm.sh/hook-weight": weight}
	}
	post := hook("post-install,post-upgrade", "0")
	post["helm.sh/hook-delete-policy"] = "before-hook-creation,hook-succeeded,hook-failed"
	if change != nil {
		change(post)
	}
	return rig.Files{
		"Chart.yaml": "apiVersion: v2\nname: edge\nversion: 1.0.0\ndependencies:\n- {name: base, version: 1.0.0}\n- {name: db, version: 1.0.0, depends-on: [base]}\n" +
			"- {name: app, version: 1.0.0, depends-on: [db]}\n",
		"templates/hook.yaml":             rig.Job("root", map[string]string{"helm.sh/hook": "pre-install"}, "0s"),
		"charts/base/Chart.yaml":          "apiVersion: v2\nname: base\nversion: 1.0.0\n",
		"charts/base/templates/all.yaml":  rig.ConfigMap("base", nil),
		"charts/db/Chart.yaml":            "apiVersion: v2\nname: db\nversion: 1.0.0\n",
		"charts/db/templates/all.yaml":    strings.Join([]string{rig.ConfigMap("one", rig.Group("one")), rig.ConfigMap("two", rig.Group("two", "one"))}, "\n---\n"),
		"charts/db/templates/first.yaml":  rig.Job("first", hook("pre-install", "-1"), "300ms"),
		"charts/db/templates/second.yaml": rig.Job("second", hook("pre-install,pre-upgrade", "1"), "300ms"),
		"charts/db/templates/post.yaml":   rig.Job("post", post, "300ms"),
		"charts/app/Chart.yaml":           "apiVersion: v2\nname: app\nversion: 1.0.0\n",
		"charts/app/templates/all.yaml":   rig.ConfigMap("app", nil),
	}
}

// TestHooksAroundASubchart runs hooks with lockstep/hook-scope around the groups of their
// subchart.
func TestHooksAroundASubchart(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	c := rig.MakeChart(t, scopedChart(nil))
	lines, _ := r.Changes(r.Install("plain", rig.UseChart(c, nil)))
	if !slices.Contains(lines, "pre-install:Job/first Job/first hook") {
		t.Errorf("the plan has %q", lines)
	}
	out := r.MustRun(r.Install("plain", rig.UseChart(c, nil)))
	want := []string{"pre-install:Job/root", "edge/base:(unsequenced)", "pre-install:Job/first", "pre-install:Job/second", "edge/db:one", "edge/db:two",
		"post-install:Job/post", "edge/app:(unsequenced)"}
	if got := out.EndedGroups(); !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
	}
	// The audit log must show the same order. A Job is complete with its last status.
	tl := r.Timeline("lockstep")
	base, _ := tl.FirstWrite(t, []string{"ConfigMap/base"})
	first, _ := tl.FirstWrite(t, []string{"Job/first"})
	second, _ := tl.FirstWrite(t, []string{"Job/second"})
	one, _ := tl.FirstWrite(t, []string{"ConfigMap/one"})
	post, _ := tl.FirstWrite(t, []string{"Job/post"})
	app, _ := tl.FirstWrite(t, []string{"ConfigMap/app"})
	order := []time.Time{base, first, tl.LastStatus(t, "Job/first"), second, tl.LastStatus(t, "Job/second"), one, post, app}
	if !slices.IsSortedFunc(order, time.Time.Compare) {
		t.Errorf("the audit log has %v", order)
	}
	if got := r.Jobs(); !slices.Equal(got, []string{"first", "root", "second"}) {
		t.Errorf("remaining Jobs: %v, want those that their delete policies keep", got)
	}
	if hooks := r.MustHelm("get", "hooks", "t"); strings.Count(hooks, plan.AnnotationHookScope) != 3 {
		t.Errorf("the release has the hooks\n%s", hooks)
	}

	out = r.MustRun(r.Upgrade("plain", rig.UseChart(c, nil)))
	want = []string{"edge/base:(unsequenced)", "pre-upgrade:Job/second", "edge/db:one", "edge/db:two", "post-upgrade:Job/post", "edge/app:(unsequenced)"}
	if got := out.EndedGroups(); !slices.Equal(got, want) {
		t.Errorf("the upgrade ran %q, want %q", got, want)
	}
	r.MustRun(r.Uninstall())
}

// TestHooksAroundASubchartInARollback: a rollback runs the hooks in the plan where its plan shows them.
func TestHooksAroundASubchartInARollback(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	fs := scopedChart(nil)
	fs["charts/db/templates/second.yaml"] = rig.Job("second", map[string]string{"helm.sh/hook": "pre-rollback", plan.AnnotationHookScope: plan.HookScopeSubchart}, "300ms")
	c := rig.MakeChart(t, fs)
	r.Deploy("plain", rig.UseChart(c, nil))
	r.MustRun(r.Upgrade("plain", rig.UseChart(c, nil)))
	out := r.MustRun(r.Rollback(1))
	want := []string{"edge/base:(unsequenced)", "pre-rollback:Job/second", "edge/db:one", "edge/db:two", "edge/app:(unsequenced)"}
	if got := out.EndedGroups(); !slices.Equal(got, want) {
		t.Errorf("the rollback ran %q, want %q", got, want)
	}
}

// TestLogPolicyOfScopedHook: the output-log policies of hooks in the plan do not apply. At the time of Helm's
// pre-upgrade hooks, the pods of such a hook are those of the install.
func TestLogPolicyOfScopedHook(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	scope := map[string]string{plan.AnnotationHookScope: plan.HookScopeSubchart}
	fs := scopedChart(nil)
	fs["charts/db/templates/second.yaml"] = loggingHook("second", "pre-install,pre-upgrade", "0", scope)
	fs["charts/db/templates/post.yaml"] = loggingHook("post", "post-install,post-upgrade", "0", scope)
	c := rig.MakeChart(t, fs)
	outs := []rig.Outcome{r.MustRun(r.Install("plain", rig.UseChart(c, nil))), r.MustRun(r.Upgrade("plain", rig.UseChart(c, nil)))}
	for _, out := range outs {
		for _, e := range out.Events {
			if e.Kind == event.KindLog {
				t.Errorf("%s: log %q of %s", out.State.Operation.Name, e.Lines, e.Message)
			}
		}
	}
}

// TestHookAroundASubchartFails: a failed hook ends the operation before the groups that wait
// for the subchart.
func TestHookAroundASubchartFails(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	fs := scopedChart(nil)
	fs["charts/db/templates/second.yaml"] = strings.Replace(fs["charts/db/templates/second.yaml"], "sandbox/run-duration: 300ms", "sandbox/run-duration: 100ms, sandbox/exit-code: \"1\"", 1)
	fs["charts/db/templates/second.yaml"] = strings.Replace(fs["charts/db/templates/second.yaml"], "spec:\n", "spec:\n  backoffLimit: 0\n", 1)
	op, err := r.Install("plain", rig.UseChart(rig.MakeChart(t, fs), nil))
	r.MustFail(op, err, "Job/second", "never started", "edge/app:(unsequenced)")
}

// TestScopeOfAHook: an invalid scope is a warning, and the hook runs as in Helm.
func TestScopeOfAHook(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	fs := scopedChart(func(m map[string]string) { m[plan.AnnotationHookScope] = "chart" })
	op := r.Must(r.Install("plain", rig.UseChart(rig.MakeChart(t, fs), nil)))
	if !slices.ContainsFunc(op.Warnings(), func(w plan.Warning) bool { return strings.Contains(w.Message, `unknown value "chart"`) }) {
		t.Errorf("warnings %v", op.Warnings())
	}
	if last := op.Phases()[len(op.Phases())-1]; last.Name != "post-install" {
		t.Errorf("the last phase is %s", last.Name)
	}
}
