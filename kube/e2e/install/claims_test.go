package install

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// foreign are the ways in which somebody else comes to own ConfigMap/shared while a run is paused.
var foreign = map[string]func(*rig.Rig){
	"created": func(r *rig.Rig) { replaceShared(r, nil, map[string]string{"theirs": "1"}) },
	"created with conflicts": func(r *rig.Rig) {
		replaceShared(r, nil, map[string]string{"is": "theirs"})
	},
	"created by a release": func(r *rig.Rig) {
		replaceShared(r, map[string]string{"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": r.Namespace}, map[string]string{"is": "shared"})
	},
	"taken over": func(r *rig.Rig) {
		if !slices.Contains(r.ConfigMaps(r.Namespace), "shared") {
			replaceShared(r, nil, map[string]string{"theirs": "1"})
		}
		r.PatchConfigMap("shared", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"Helm"},`+
			`"annotations":{"meta.helm.sh/release-name":"other","meta.helm.sh/release-namespace":"`+r.Namespace+`"}}}`)
	},
}

// replaceShared creates ConfigMap/shared as somebody else, in place of the one that exists.
func replaceShared(r *rig.Rig, owner, data map[string]string) {
	r.T.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shared", Annotations: owner}, Data: data}
	if owner != nil {
		cm.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	}
	client := r.Cluster.CoreV1().ConfigMaps(r.Namespace)
	_ = client.Delete(r.T.Context(), "shared", metav1.DeleteOptions{})
	if _, err := client.Create(r.T.Context(), cm, metav1.CreateOptions{FieldManager: "somebody"}); err != nil {
		r.T.Fatal(err)
	}
}

// shared returns ConfigMap/shared, nil if it does not exist.
func shared(r *rig.Rig) *corev1.ConfigMap {
	cm, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Get(context.Background(), "shared", metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return cm
}

// TestForeignObjects: while a run is paused, ConfigMap/shared becomes somebody else's. The run neither writes to it nor
// deletes it, and neither does what follows: a rollback on failure, a cleanup, a rollback, an uninstall (R31a).
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	first := func(v string) string { return rig.ConfigMap("first", rig.Group("first"), "v: v"+v) }
	both := func(v string) []string {
		return []string{first(v), rig.ConfigMap("shared", rig.Group("late", "first"), "v: v"+v)}
	}
	breakOn := []string{"edge:late"}
	scenarios := map[string]struct {
		prepare func(*rig.Rig) (*kube.Operation, error)
		kept    bool // the operation succeeds, because it only removes the object
	}{
		"install": {prepare: func(r *rig.Rig) (*kube.Operation, error) {
			return r.Install("plain", rig.UseChart(rig.ChartOf(r.T, both("1")...), func(i *kube.Deploy) { i.BreakOn = breakOn }))
		}},
		"client-side install with rollback": {prepare: func(r *rig.Rig) (*kube.Operation, error) {
			return r.Install("plain", rig.UseChart(rig.ChartOf(r.T, both("1")...), func(i *kube.Deploy) {
				i.BreakOn, i.ServerSide, i.RollbackOnFailure = breakOn, "false", true
			}))
		}},
		"forced upgrade adds it, with rollback": {prepare: func(r *rig.Rig) (*kube.Operation, error) {
			r.Deploy("plain", rig.UseChart(rig.ChartOf(r.T, first("1")), nil))
			return r.Upgrade("plain", rig.UseChart(rig.ChartOf(r.T, both("2")...), func(u *kube.Deploy) {
				u.BreakOn, u.ForceConflicts, u.RollbackOnFailure = breakOn, true, true
			}))
		}},
		"upgrade adds it, with cleanup": {prepare: func(r *rig.Rig) (*kube.Operation, error) {
			r.Deploy("plain", rig.UseChart(rig.ChartOf(r.T, first("1")), nil))
			return r.Upgrade("plain", rig.UseChart(rig.ChartOf(r.T, both("2")...), func(u *kube.Deploy) { u.BreakOn, u.CleanupOnFail = breakOn, true }))
		}},
		"upgrade changes it": {prepare: func(r *rig.Rig) (*kube.Operation, error) {
			r.Deploy("plain", rig.UseChart(rig.ChartOf(r.T, both("1")...), nil))
			return r.Upgrade("plain", rig.UseChart(rig.ChartOf(r.T, both("2")...), func(u *kube.Deploy) { u.BreakOn = breakOn }))
		}},
		"client-side upgrade changes it": {prepare: func(r *rig.Rig) (*kube.Operation, error) {
			r.Deploy("plain", rig.UseChart(rig.ChartOf(r.T, both("1")...), func(i *kube.Deploy) { i.ServerSide = "false" }))
			return r.Upgrade("plain", rig.UseChart(rig.ChartOf(r.T, both("2")...), func(u *kube.Deploy) { u.BreakOn, u.ServerSide = breakOn, "false" }))
		}},
		"replacing upgrade changes it": {prepare: func(r *rig.Rig) (*kube.Operation, error) {
			r.Deploy("plain", rig.UseChart(rig.ChartOf(r.T, both("1")...), func(i *kube.Deploy) { i.ServerSide = "false" }))
			return r.Upgrade("plain", rig.UseChart(rig.ChartOf(r.T, both("2")...), func(u *kube.Deploy) {
				u.BreakOn, u.ServerSide, u.ForceReplace = breakOn, "false", true
			}))
		}},
		"upgrade removes it": {kept: true, prepare: func(r *rig.Rig) (*kube.Operation, error) {
			r.Deploy("plain", rig.UseChart(rig.ChartOf(r.T, both("1")...), nil))
			next := rig.ChartOf(r.T, first("2"), rig.ConfigMap("other", rig.Group("late", "first")))
			return r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) { u.BreakOn = breakOn }))
		}},
		"rollback brings it back": {prepare: func(r *rig.Rig) (*kube.Operation, error) {
			r.Deploy("plain", rig.UseChart(rig.ChartOf(r.T, both("1")...), nil))
			r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(r.T, first("2")), nil)))
			return r.Client.PrepareRollback(r.T.Context(), kube.Rollback{Common: pausing(r, breakOn), Revision: 1})
		}},
		"uninstall": {kept: true, prepare: func(r *rig.Rig) (*kube.Operation, error) {
			r.Deploy("plain", rig.UseChart(rig.ChartOf(r.T, both("1")...), nil))
			return r.Client.PrepareUninstall(r.T.Context(), kube.Uninstall{Common: pausing(r, breakOn)})
		}},
		"hook": {prepare: func(r *rig.Rig) (*kube.Operation, error) {
			first := rig.ConfigMap("zero", map[string]string{"helm.sh/hook": "pre-install", "helm.sh/hook-weight": "-1"})
			hook := rig.ConfigMap("shared", map[string]string{"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"})
			return r.Install("plain", rig.UseChart(rig.ChartOf(r.T, first, hook), func(i *kube.Deploy) { i.BreakOn = []string{"pre-install:ConfigMap/shared"} }))
		}},
	}
	names := slices.Sorted(maps.Keys(scenarios))
	for name, scenario := range scenarios {
		for how, change := range foreign {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				r := rig.NewNamed(t, strings.ReplaceAll(fmt.Sprintf("foreign-%d-%s", slices.Index(names, name), how), " ", "-"))
				op := r.Must(scenario.prepare(r))
				var theirs *corev1.ConfigMap
				out := r.Run(op, func(e event.Event) {
					if e.Kind == event.KindRun && e.Status == event.Paused {
						if theirs == nil {
							change(r)
							theirs = shared(r)
						}
						op.Command(event.Command{Name: event.Resume})
					}
				})
				if theirs == nil {
					t.Fatalf("the run did not pause: %v", out.Err)
				}
				if scenario.kept && out.Err != nil {
					t.Errorf("error %v", out.Err)
				}
				if !scenario.kept && (out.Err == nil || !strings.Contains(out.State.Message, "ConfigMap/shared") || out.State.Exit != 1) {
					t.Errorf("exit %d, message %q", out.State.Exit, out.State.Message)
				}
				assertUntouched(r, theirs, "the operation")
				if len(r.Revisions()) > 1 && !strings.HasSuffix(name, "changes it") { // it adopts an object without marks, as Helm does
					if op, err := r.Rollback(1); err == nil { // otherwise it is refused
						r.Run(op, nil)
					}
					assertUntouched(r, theirs, "a rollback")
				}
				if len(r.Revisions()) > 0 {
					r.MustRun(r.Uninstall())
					assertUntouched(r, theirs, "an uninstall")
				}
			})
		}
	}
}

// pausing returns the options of an operation on release t that pauses before groups.
func pausing(r *rig.Rig, groups []string) kube.Common {
	c := r.Common()
	c.BreakOn = groups
	return c
}

// assertUntouched checks that nobody has written to an object.
func assertUntouched(r *rig.Rig, before *corev1.ConfigMap, after string) {
	r.T.Helper()
	if now := shared(r); now == nil {
		r.T.Fatalf("%s deleted the object of somebody else", after)
	} else if now.UID != before.UID || now.ResourceVersion != before.ResourceVersion {
		r.T.Fatalf("%s changed the object of somebody else: %v, %v", after, now.Annotations, now.Data)
	}
}

// TestTwoReleasesOneObject: two installs that wait at the same time bring the same object. One of them gets it, the other
// one fails and names the owner (R31a).
func TestTwoReleasesOneObject(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	prepare := func(release string) *kube.Operation {
		chart := rig.ChartOf(t, rig.ConfigMap("first-"+release, rig.Group("first")), rig.ConfigMap("shared", rig.Group("late", "first")))
		op := r.Must(r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.Release, i.BreakOn = release, []string{"edge:late"} })))
		return op
	}
	ops := map[string]*kube.Operation{"x": prepare("x"), "y": prepare("y")}
	paused, ended := make(chan string), make(chan rig.Outcome)
	for name, op := range ops {
		go func() {
			ended <- r.Run(op, func(e event.Event) {
				if e.Kind == event.KindRun && e.Status == event.Paused {
					paused <- name
				}
			})
		}()
	}
	<-paused
	<-paused
	for _, op := range ops {
		op.Command(event.Command{Name: event.Resume})
	}
	var failed []string
	for range ops {
		if out := <-ended; out.Err != nil {
			failed = append(failed, out.State.Message)
		}
	}
	owner := shared(r).Annotations["meta.helm.sh/release-name"]
	if len(failed) != 1 || !strings.Contains(failed[0], "ConfigMap/shared") || !strings.Contains(failed[0], "owned by release "+owner) {
		t.Errorf("the owner is %s, failed %q", owner, failed)
	}
}

// TestTakeOwnershipMeanwhile: with --take-ownership, an object that appears while the run is paused is taken over. A retry
// of a refused object succeeds once the object is gone (R44).
func TestTakeOwnershipMeanwhile(t *testing.T) {
	t.Parallel()
	for _, take := range []bool{true, false} {
		t.Run(map[bool]string{true: "taken", false: "retried"}[take], func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			if take {
				r.TakesOver = []string{"configmaps/shared"}
			}
			chart := rig.ChartOf(t, rig.ConfigMap("first", rig.Group("first")), rig.ConfigMap("shared", rig.Group("late", "first")))
			op, err := r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) {
				i.BreakOn, i.TakeOwnership, i.ForceConflicts, i.HoldOnFailure = []string{"edge:late"}, take, take, true
			}))
			if err != nil {
				t.Fatal(err)
			}
			held := false
			out := r.Run(op, func(e event.Event) {
				switch {
				case e.Kind != event.KindRun:
				case e.Status == event.Paused:
					if !held {
						foreign["created by a release"](r)
					}
					op.Command(event.Command{Name: event.Resume})
				case e.Status == event.Held && !held:
					held = true
					if err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Delete(t.Context(), "shared", metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
					op.Command(event.Command{Name: event.Retry})
				}
			})
			if out.Err != nil || held == take || shared(r).Annotations["meta.helm.sh/release-name"] != "t" {
				t.Errorf("held %t, error %v, owner %v", held, out.Err, shared(r).Annotations)
			}
		})
	}
}

// TestObjectThatChanges: an object of the release that somebody else writes to meanwhile is still applied (R31a).
func TestObjectThatChanges(t *testing.T) {
	t.Parallel()
	for _, serverSide := range []string{"true", "false"} {
		t.Run(serverSide, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			chart := func(v string) []string {
				return []string{rig.ConfigMap("first", rig.Group("first")), rig.ConfigMap("shared", rig.Group("late", "first"), "v: \""+v+"\"")}
			}
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, chart("1")...), func(i *kube.Deploy) { i.ServerSide = serverSide }))
			op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, chart("2")...), func(u *kube.Deploy) {
				u.BreakOn, u.ServerSide = []string{"edge:late"}, serverSide
			}))
			if err != nil {
				t.Fatal(err)
			}
			out := r.Run(op, func(e event.Event) {
				if e.Kind == event.KindRun && e.Status == event.Paused {
					_, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(t.Context(), "shared", types.MergePatchType, []byte(`{"data":{"theirs":"1"}}`), metav1.PatchOptions{})
					if err != nil {
						t.Error(err)
					}
					op.Command(event.Command{Name: event.Resume})
				}
			})
			if data := r.ConfigMapData("shared"); out.Err != nil || data["v"] != "2" || data["theirs"] != "1" {
				t.Errorf("%v, error %v", data, out.Err)
			}
		})
	}
}

// TestObjectDeletedMeanwhile: Helm sends several requests for one update. If somebody deletes the object before any of them, the
// run creates it again.
func TestObjectDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	const requests = 3 // of one update that migrates to server-side apply
	for _, tt := range []struct{ before, now string }{{"true", "true"}, {"false", "false"}, {"false", "true"}} {
		t.Run("server-side "+tt.before+" to "+tt.now, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			chart := func(v string) *charts.Chart {
				docs := []string{rig.ConfigMap("first", rig.Group("first"))}
				for n := range requests {
					docs = append(docs, rig.ConfigMap(fmt.Sprint("shared-", n), rig.Group("late", "first"), "v: \""+v+"\""))
				}
				return rig.ChartOf(t, docs...)
			}
			r.Deploy("plain", rig.UseChart(chart("1"), func(i *kube.Deploy) { i.ServerSide = tt.before }))
			configMaps := r.Cluster.CoreV1().ConfigMaps(r.Namespace)
			var mu sync.Mutex
			var seen map[string]int // requests for each object, once the group may start
			client := r.ConnectThrough(rig.Interceptor{Intercept: func(_ http.ResponseWriter, q *http.Request) bool {
				mu.Lock()
				defer mu.Unlock()
				name := path.Base(q.URL.Path)
				if seen == nil || !strings.HasPrefix(name, "shared-") {
					return false
				}
				if strings.HasSuffix(name, fmt.Sprint("-", seen[name])) {
					if err := configMaps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
				}
				seen[name]++
				return false
			}}, "")
			op, err := r.WithClient(client).Upgrade("plain", rig.UseChart(chart("2"), func(u *kube.Deploy) {
				u.BreakOn, u.ServerSide = []string{"edge:late"}, tt.now
			}))
			if err != nil {
				t.Fatal(err)
			}
			out := r.Run(op, func(e event.Event) {
				if e.Kind == event.KindRun && e.Status == event.Paused {
					mu.Lock()
					defer mu.Unlock()
					seen = map[string]int{}
					op.Command(event.Command{Name: event.Resume})
				}
			})
			if out.Err != nil || out.State.Exit != 0 {
				t.Fatalf("exit %d, error %v", out.State.Exit, out.Err)
			}
			for n := range requests {
				if data := r.ConfigMapData(fmt.Sprint("shared-", n)); data["v"] != "2" {
					t.Errorf("deleted before request %d: %v", n+1, data)
				}
			}
		})
	}
}
