package upgrade

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/faultproxy"
)

// TestRollbackToUnsequenced rolls back, all at once, to a revision that was not sequenced:
// because of its wait strategy, or because Helm created it (R32).
func TestRollbackToUnsequenced(t *testing.T) {
	docs := []string{rig.ConfigMap("a", rig.Group("one")), rig.ConfigMap("b", rig.Group("two", "one"))}
	first := map[string]func(*rig.Rig){
		"hookOnly": func(r *rig.Rig) {
			r.Deploy("plain", rig.UseChart(rig.ChartOf(r.T, docs...), func(i *kube.Deploy) { i.Wait = "hookOnly" }))
		},
		"helm": func(r *rig.Rig) {
			in := action.NewInstall(r.Helm())
			in.ReleaseName, in.Namespace, in.WaitStrategy = "t", r.Namespace, helmkube.HookOnlyStrategy
			plain := map[string]string{plan.AnnotationGroup: "one"}
			c, err := rig.ChartOf(r.T, rig.ConfigMap("a", plain), rig.ConfigMap("b", map[string]string{plan.AnnotationGroup: "two"})).Helm()
			if err == nil {
				_, err = in.Run(c, nil)
			}
			if err != nil {
				r.T.Fatal(err)
			}
		},
	}
	for name, install := range first {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			install(r)
			op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, append(docs, rig.ConfigMap("c", rig.Group("three", "two")))...), nil))
			if out := r.MustRun(op, err); len(out.State.Phases[0].Groups) != 3 {
				t.Errorf("the upgrade has %d groups, want 3", len(out.State.Phases[0].Groups))
			}
			out := r.MustRun(r.Rollback(1))
			if n, m := len(out.State.Phases[0].Groups), len(out.State.Phases[1].Groups); n != 1 || m != 1 {
				t.Errorf("the rollback applies %d groups and removes %d, want all at once, then c", n, m)
			}
			if out := r.MustRun(r.Uninstall()); len(out.State.Phases[0].Groups) != 1 {
				t.Errorf("an unsequenced revision is removed in %d groups, want 1", len(out.State.Phases[0].Groups))
			}
		})
	}
}

// TestFailedUpgradeRollsBack rolls back to the last good revision, in order, and reports it
// (R33).
func TestFailedUpgradeRollsBack(t *testing.T) {
	t.Parallel()
	for _, rollback := range []bool{false, true} {
		t.Run(fmt.Sprint(rollback), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("fail-image", func(i *kube.Deploy) { i.Values = map[string]any{"image": "example/app:1.0"} })
			op := r.Must(r.Upgrade("fail-image", func(u *kube.Deploy) {
				u.RollbackOnFailure, u.ReadinessTimeout = rollback, 8*time.Second
				u.Values = map[string]any{"image": "example/no-such-image:2"}
			}))
			if op.Info().PreviousRevision != 1 {
				t.Errorf("it would roll back to revision %d, want 1", op.Info().PreviousRevision)
			}
			out := r.Run(op, nil)
			if out.State.Exit != 1 || !strings.Contains(out.State.Message, "Deployment/broken") {
				t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
			}
			want := []string{"1 deployed", "2 failed"}
			if rollback {
				want = []string{"1 superseded", "2 failed", "3 deployed"}
				if !strings.Contains(out.State.Message, "rolled back to revision 1") {
					t.Errorf("message %s", out.State.Message)
				}
			}
			if got := r.History(); !slices.Equal(got, want) {
				t.Errorf("history %v, want %v", got, want)
			}
		})
	}
}

// TestRollbackSendsTheSame rolls back to a revision that equals the current one: nothing changes, because the objects have the
// annotations of the stored manifest, which has one slash where the chart may have two. So Helm, too, would send the same (R3).
func TestRollbackSendsTheSame(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{"hip0025-groups-complete", "hip9999-layers", "edge"} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			var c *charts.Chart
			if chart == "edge" { // the chart uses the keys of stored manifests
				c = rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("b", map[string]string{"helm.sh/resource-group": "b", "helm.sh/depends-on-resource-groups": `["a"]`}))
			} else {
				c = rig.LoadChart(t, chart)
			}
			r.Deploy("plain", rig.UseChart(c, nil))
			r.MustRun(r.Upgrade("plain", rig.UseChart(c, nil)))
			if drift, err := r.Client.Drift(t.Context(), []kube.ReleaseKey{{Namespace: r.Namespace, Name: "t"}}); err != nil || len(drift) != 1 || len(drift[0].Objects) > 0 {
				t.Errorf("not as recorded: %+v, %v", drift, err)
			}
			if chart == "edge" {
				live, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Get(t.Context(), "b", metav1.GetOptions{})
				if err != nil || live.Annotations["helm.sh/depends-on-resource-groups"] != `["a"]` {
					t.Errorf("ConfigMap/b has the annotations %v, %v", live.Annotations, err)
				}
			}
			lines, diffs := r.Changes(r.Rollback(1))
			if len(lines) == 0 {
				t.Fatal("nothing is planned")
			}
			for _, l := range lines {
				if object := strings.Fields(l)[1]; !strings.HasSuffix(l, " unchanged") {
					t.Errorf("%s\n%s", l, diffs[object].Diff)
				}
			}
			r.MustRun(r.Rollback(1))
		})
	}
}

// TestRollbackOfAnUntouchedObject: an automatic rollback writes nothing to the objects that the failed upgrade did not reach or has
// not removed yet: what somebody else has changed there stays, and is no conflict (R33, R51b). One by hand restores the fields of
// its revision, and keeps those that somebody else has added.
func TestRollbackOfAnUntouchedObject(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		serverSide     string
		byHand         bool
		later, dropped map[string]string
	}{
		"server-side": {"true", false, map[string]string{"is": "changed", "extra": "theirs"}, map[string]string{"is": "changed"}},
		"client-side": {"false", false, map[string]string{"is": "changed", "extra": "theirs"}, map[string]string{"is": "changed"}},
		"by-hand":     {"false", true, map[string]string{"is": "later", "extra": "theirs"}, map[string]string{"is": "dropped"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			with := func(docs ...string) func(*kube.Deploy) {
				return rig.UseChart(rig.ChartOf(t, docs...), func(d *kube.Deploy) {
					d.ServerSide, d.ReadinessTimeout, d.RollbackOnFailure = tt.serverSide, 8*time.Second, !tt.byHand
				})
			}
			r.Deploy("plain", with(rig.ConfigMap("first", rig.Group("first"), "v: one"), rig.ConfigMap("later", rig.Group("later", "first")), rig.ConfigMap("dropped", nil)))
			r.PatchConfigMap("first", `{"data": {"theirs": "x"}}`)
			r.PatchConfigMap("later", `{"data": {"is": "changed", "extra": "theirs"}}`)
			r.PatchConfigMap("dropped", `{"data": {"is": "changed"}}`)
			next := []string{rig.ConfigMap("first", rig.Group("first"), "v: two"), rig.UnpullableDeployment("fails", rig.Group("first"))}
			if tt.serverSide == "false" { // else the upgrade is refused: somebody else owns the field
				next = append(next, rig.ConfigMap("later", rig.Group("later", "first"), "extra: two"))
			}
			if out := r.Run(r.Must(r.Upgrade("plain", with(next...))), nil); out.State.Exit != event.ExitFailed {
				t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
			}
			if tt.byHand {
				r.MustRun(r.Rollback(1))
			}
			if r.Status() != rcommon.StatusDeployed {
				t.Errorf("release %s", r.Status())
			}
			for name, want := range map[string]map[string]string{"first": {"is": "first", "v": "one", "theirs": "x"}, "later": tt.later, "dropped": tt.dropped} {
				if got := r.ConfigMapData(name); !maps.Equal(got, want) {
					t.Errorf("ConfigMap/%s has %v, want %v", name, got, want)
				}
			}
		})
	}
}

// TestRollbackOfAnUnsentObject: the record of a failed revision says which objects of a group that has started were never sent. With
// client-side apply, a rollback by hand keeps what somebody else has set in one, although the revision has the same field (R32a).
func TestRollbackOfAnUnsentObject(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := func(annotations map[string]string, data ...string) func(*kube.Deploy) {
		docs := []string{rig.ConfigMap("refused", nil, data...), rig.Deployment("web", annotations, "0s")}
		return rig.UseChart(rig.ChartOf(t, docs...), func(d *kube.Deploy) { d.ServerSide = "false" })
	}
	r.Deploy("plain", chart(nil))
	deployments := r.Cluster.AppsV1().Deployments(r.Namespace)
	theirs := []byte(`{"metadata": {"annotations": {"extra": "theirs"}}}`)
	if _, err := deployments.Patch(t.Context(), "web", types.MergePatchType, theirs, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	c := r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
		refuse := req.Method == http.MethodPatch && strings.HasSuffix(req.URL.Path, "/configmaps/refused") && req.URL.Query().Get("dryRun") == ""
		if refuse {
			faultproxy.Refuse(w, http.StatusUnprocessableEntity, "Invalid", "made to fail")
		}
		return refuse
	}}, "")
	op, err := r.WithClient(c).Upgrade("plain", chart(map[string]string{"extra": "two"}, "v: two"))
	r.MustFail(op, err, "made to fail")
	r.MustRun(r.Rollback(1))
	d, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || d.Annotations["extra"] != "theirs" {
		t.Errorf("Deployment/web has the annotations %v, %v", d.Annotations, err)
	}
}
