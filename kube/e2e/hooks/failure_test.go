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
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestFailingImage: a Deployment whose image cannot be pulled fails the run, which names the
// object and its status. The release is failed or, with --rollback-on-failure, gone (R26, R33,
// R34).
func TestFailingImage(t *testing.T) {
	t.Parallel()
	for _, rollback := range []bool{false, true} {
		t.Run(map[bool]string{false: "keep", true: "rollback"}[rollback], func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			op := r.Must(r.Install("fail-image", func(i *kube.Deploy) {
				i.ReadinessTimeout, i.RollbackOnFailure = 4*time.Second, rollback
			}))
			out := r.Run(op, nil)
			if out.State.Status != event.Failed || out.State.Exit != 1 {
				t.Errorf("%s, exit %d", out.State.Status, out.State.Exit)
			}
			for _, part := range []string{"Deployment/broken: container ", "no-such-image", "gave up after 4s", "never started: fail-image:after"} {
				if !strings.Contains(out.State.Message, part) {
					t.Errorf("the message lacks %q: %s", part, out.State.Message)
				}
			}
			want, left := rcommon.StatusFailed, 2
			if rollback {
				want, left = "", 0
			}
			if got := r.Status(); got != want {
				t.Errorf("the release is %q, want %q", got, want)
			}
			if got := r.Remaining(); len(got) != left {
				t.Errorf("%d objects left, want %d: %v", len(got), left, got)
			}
		})
	}
}

// TestFailingHook: a failed hook fails the release, and the error names the hook.
func TestFailingHook(t *testing.T) {
	t.Parallel()
	for _, event := range []string{"pre-install", "post-install"} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			op := r.Must(r.Install("fail-hook", func(i *kube.Deploy) { i.Values = map[string]any{"hook": event} }))
			out := r.Run(op, nil)
			if out.State.Exit != 1 || !strings.Contains(out.State.Message, event+":Job/") {
				t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
			}
			if got := r.Status(); got != rcommon.StatusFailed {
				t.Errorf("the release is %q, want failed", got)
			}
		})
	}
}

// TestRefusedHook: if the API server refuses the object of a hook, the delete policies for failed and
// earlier hooks do not apply, as in Helm (R29). The object with the name of the hook is not the hook's.
func TestRefusedHook(t *testing.T) {
	t.Parallel()
	hook := func(weight, policy string) map[string]string {
		return map[string]string{"helm.sh/hook": "pre-install", "helm.sh/hook-weight": weight, "helm.sh/hook-delete-policy": policy}
	}
	files := rig.Files{"templates/all.yaml": strings.Join([]string{
		rig.ConfigMap("a", nil), rig.ConfigMap("first", hook("1", "hook-succeeded")), rig.ConfigMap("locked", hook("2", "hook-failed"))}, "\n---\n")}
	const locked = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: locked}\ndata: {is: somebody else's}"

	helms, ours := installBoth(t, files, locked, "pre-install:ConfigMap/locked")
	if got, want := ours.ConfigMaps(ours.Namespace), helms.ConfigMaps(helms.Namespace); !slices.Equal(got, want) || !slices.Contains(got, "locked") {
		t.Errorf("left %v, Helm %v", got, want)
	}
}

// TestRefusedScopedHook: if the API server refuses a hook in the plan, its delete policies do not apply either, and
// somebody else's Job with its name stays (R29).
func TestRefusedScopedHook(t *testing.T) {
	t.Parallel()
	const policy = "hook-succeeded,hook-failed"
	files := rig.Files{
		"charts/db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.0.0\n",
		"charts/db/templates/all.yaml": rig.ConfigMap("a", nil) + "\n---\n" +
			rig.Job("work", map[string]string{"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": policy, plan.AnnotationHookScope: plan.HookScopeSubchart}, "1s"),
	}
	helms, ours := installBoth(t, files, rig.Job("work", nil, "0s"), "pre-install:Job/work")
	if got, want := ours.Jobs(), helms.Jobs(); !slices.Equal(got, want) || len(got) != 1 {
		t.Errorf("left %v, Helm %v", got, want)
	}
}

// installBoth installs a chart with Helm and with lockstep, each in a namespace in which an object already exists. Both
// installs must fail, and the message of lockstep must contain failure.
func installBoth(t *testing.T, files rig.Files, existing, failure string) (helms, ours *rig.Rig) {
	t.Helper()
	dir := rig.MakeDir(t, files)
	chart, err := charts.LoadPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	helms = rig.New(t)
	helms.Create(existing)
	if out, err := helms.RunHelm("install", "t", dir); err == nil {
		t.Fatalf("helm succeeded: %s", out)
	}
	ours = rig.NewNamed(t, helms.Namespace+"-l")
	ours.Create(existing)
	op, err := ours.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.SkipPreflight = true }))
	ours.MustFail(op, err, failure)
	return helms, ours
}

// TestHooksWithoutObjects: the hooks of a release without objects are units of the run, also if its manifest has a
// comment (R40).
func TestHooksWithoutObjects(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"empty": "", "comment": "# nothing\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			c := rig.MakeChart(t, rig.Files{"templates/a.yaml": text, "templates/hooks.yaml": rig.ConfigMap("before", map[string]string{"helm.sh/hook": "pre-install,pre-upgrade,pre-rollback,pre-delete"}) +
				"\n---\n" + rig.ConfigMap("after", map[string]string{"helm.sh/hook": "post-install,post-upgrade,post-rollback,post-delete"})})
			assertReady := func(out rig.Outcome, operation string) {
				t.Helper()
				for id, phase := range map[string]string{"ConfigMap/before": "pre-" + operation, "ConfigMap/after": "post-" + operation} {
					if g := out.State.Find(phase, phase+":"+id); g == nil || g.Status != event.Ready {
						t.Errorf("%s of %s: %+v, want ready", id, phase, g)
					}
				}
			}
			assertReady(r.MustRun(r.Install("plain", rig.UseChart(c, nil))), "install")
			assertReady(r.MustRun(r.Upgrade("plain", rig.UseChart(c, nil))), "upgrade")
			assertReady(r.MustRun(r.Rollback(1)), "rollback")
			assertReady(r.MustRun(r.Uninstall()), "delete")
		})
	}
}
