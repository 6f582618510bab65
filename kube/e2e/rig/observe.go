package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/kube"
	"lockstep/kube/release"
	"lockstep/kube/throwaway/auditlog"
)

// Changes plans an operation and returns its changes as "group object action", and the diffs by object.
func (r *Rig) Changes(op *kube.Operation, err error) (lines []string, diffs map[string]inspect.Change) {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
	all, err := op.Changes(r.T.Context())
	if err != nil {
		r.T.Fatal(err)
	}
	diffs = map[string]inspect.Change{}
	for _, c := range all {
		lines = append(lines, c.Group+" "+c.Object.String()+" "+string(c.Action))
		diffs[c.Object.String()] = c
	}
	return lines, diffs
}

// Writes returns lockstep's writes to the namespace and to objects in it, as "verb resource/name".
func (r *Rig) Writes() []string {
	r.T.Helper()
	return verbs(r.ownWrites(time.Time{}, func(o auditlog.ObjectRef) bool { return o.Namespace == r.Namespace || o.Name == r.Namespace }))
}

// WritesSince returns lockstep's writes since a time, including those to objects whose name contains the namespace's,
// as "verb resource/name".
func (r *Rig) WritesSince(since time.Time) []string {
	r.T.Helper()
	return verbs(r.ownWrites(since, func(o auditlog.ObjectRef) bool {
		return o.Namespace == r.Namespace || strings.Contains(o.Name, r.Namespace)
	}))
}

// assertNothingForeignWritten checks, at the end of every test, that lockstep wrote only to what was its own (R31a, R51b).
func (r *Rig) assertNothingForeignWritten() {
	foreign, err := Sandbox.ForeignWrites(func(ns string) bool { return ns == r.Namespace || ns == r.Namespace+"-extra" })
	if err != nil {
		r.T.Error(err)
	}
	for _, line := range foreign {
		meant := slices.ContainsFunc(r.TakesOver, func(name string) bool { return strings.Contains(line, " "+name+" ") })
		if !meant || strings.Contains(line, auditlog.Borrowed) {
			r.T.Errorf("lockstep wrote to something of somebody else: %s", line)
		}
	}
}

// observe checks, after every run, that it does not keep what it created as what existed before, and after exit code 0, that an
// observer finds what the run says.
func (r *Rig) observe(op *kube.Operation, out *Outcome) {
	r.T.Helper()
	info, kept := op.Info(), op.Taken().Kept()
	for _, e := range out.Events {
		if e.Change == event.Created && strings.Contains(kept, e.Object.String()+" (") {
			r.T.Errorf("created by this run: %s; but %s", e.Object, kept)
		}
	}
	r.assertRollbackUndoes(info, out)
	if out.Err != nil || r.Meddles != "" {
		return
	}
	switch info.Name {
	case "install", "upgrade", "rollback":
		r.AssertAsRecorded(info.Namespace, info.Release, &out.State)
	case "uninstall":
		for _, problem := range witness.Removed(context.Background(), info.Namespace, info.Release) {
			r.T.Errorf("the uninstall ended with exit code 0, but %s", problem)
		}
	}
}

// assertRollbackUndoes checks that the rollback of a failed upgrade changed only objects to which the upgrade had written (R33). It may
// create removed objects again and delete pods that block it, and it also restores objects that an earlier failed revision changed.
func (r *Rig) assertRollbackUndoes(info event.Operation, out *Outcome) {
	r.T.Helper()
	i := slices.IndexFunc(out.Events, func(e event.Event) bool { return e.Kind == event.KindOperation && e.Status == event.RollingBack })
	if i < 0 || info.Name != "upgrade" || info.PreviousRevision+1 != info.Revision {
		return
	}
	restored := map[string]bool{}
	for _, e := range out.Events[i:] {
		if e.Kind == event.KindObject && e.Phase == event.RollbackPrefix+string(event.PhaseApply) {
			restored[e.Object.Name] = true
		}
	}
	written := map[string]bool{}
	for _, e := range r.ownWrites(out.Events[0].Time, func(o auditlog.ObjectRef) bool { return o.Namespace == r.Namespace && restored[o.Name] }) {
		object := e.Object.Resource + "/" + e.Object.Name
		if e.Received.Before(out.Events[i].Time) {
			written[object] = true
		} else if !written[object] && (e.Verb == "patch" || e.Verb == "update") {
			r.T.Errorf("the rollback changed %s, which the upgrade had not touched", object)
		}
	}
}

// AssertAsRecorded checks, after exit code 0, that an observer finds a release deployed, its objects as recorded, and ready
// what the state calls ready: all objects if it is nil.
func (r *Rig) AssertAsRecorded(namespace, name string, s *event.State) {
	r.T.Helper()
	for _, problem := range witness.Deployed(context.Background(), namespace, name, func(kind, name string) bool { return s == nil || saysReady(s, kind, name) }) {
		r.T.Errorf("the run ended with exit code 0, but %s", problem)
	}
}

// saysReady reports whether a run called an object ready.
func saysReady(s *event.State, kind, name string) bool {
	for g := range s.GroupStates() {
		for _, o := range g.Objects {
			if o.Object.Kind == kind && o.Object.Name == name && o.Status == event.Ready {
				return true
			}
		}
	}
	return false
}

// ownWrites returns lockstep's writes to matching objects since a time.
func (r *Rig) ownWrites(since time.Time, matches func(auditlog.ObjectRef) bool) auditlog.Log {
	r.T.Helper()
	return r.Audit().Where(func(e auditlog.Event) bool {
		return e.Received.After(since) && e.UserAgent == "lockstep" && matches(e.Object)
	})
}

func verbs(log auditlog.Log) (out []string) {
	for _, e := range log {
		out = append(out, e.Verb+" "+e.Object.Resource+"/"+e.Object.Name)
	}
	return out
}

func (r *Rig) AssertHistory(want ...string) {
	r.T.Helper()
	if got := r.History(); !slices.Equal(got, want) {
		r.T.Errorf("history %v, want %v", got, want)
	}
}

// ConfigMapData returns the data of a ConfigMap.
func (r *Rig) ConfigMapData(name string) map[string]string {
	r.T.Helper()
	c, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Get(r.T.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.T.Fatal(err)
	}
	return c.Data
}

// watched reports whether lockstep has a watch on a resource in the namespace.
func (r *Rig) watched(resource string) bool {
	r.T.Helper()
	return slices.ContainsFunc(r.Log().Namespace(r.Namespace).UserAgent("lockstep"), func(e auditlog.Event) bool {
		return e.Verb == "watch" && e.Stage == auditlog.ResponseStarted && e.Object.Resource == resource
	})
}

// ConfigMaps returns the names of the ConfigMaps in a namespace, except the one that Kubernetes creates.
func (r *Rig) ConfigMaps(namespace string) []string {
	r.T.Helper()
	list, err := r.Cluster.CoreV1().ConfigMaps(namespace).List(r.T.Context(), metav1.ListOptions{})
	names := namesOf(r, "", list.Items, err)
	return slices.DeleteFunc(names, func(name string) bool { return name == "kube-root-ca.crt" })
}

// namesOf prepends a prefix to the name of each object in a list.
func namesOf[T any, P interface {
	*T
	GetName() string
}](r *Rig, prefix string, items []T, err error) (names []string) {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
	for i := range items {
		names = append(names, prefix+P(&items[i]).GetName())
	}
	return names
}

// PatchConfigMap patches a ConfigMap with another field manager.
func (r *Rig) PatchConfigMap(name, patch string) {
	r.T.Helper()
	if _, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(r.T.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		r.T.Fatal(err)
	}
}

// Eventually waits until ok returns true, for a minute at most. what describes the condition.
func (r *Rig) Eventually(what string, ok func() bool) {
	r.T.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.T.Errorf("timed out after a minute: %s", what)
			return
		}
	}
}

// Status returns the status of release t in Helm's storage, "" if the release does not exist.
func (r *Rig) Status() rcommon.Status {
	r.T.Helper()
	last, err := r.Helm().Releases.Last("t")
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return ""
	}
	if err != nil {
		r.T.Fatal(err)
	}
	return r.v1(last).Info.Status
}

// Labelled returns the Deployments and ConfigMaps in the namespace that Helm's label marks as part of a release.
func (r *Rig) Labelled() []string {
	r.T.Helper()
	opts := metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=Helm"}
	deployments, err := r.Cluster.AppsV1().Deployments(r.Namespace).List(r.T.Context(), opts)
	out := namesOf(r, "Deployment/", deployments.Items, err)
	maps, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).List(r.T.Context(), opts)
	return append(out, namesOf(r, "ConfigMap/", maps.Items, err)...)
}

// Remaining returns the objects of Labelled and all Jobs.
func (r *Rig) Remaining() []string {
	r.T.Helper()
	out := r.Labelled()
	for _, name := range r.Jobs() {
		out = append(out, "Job/"+name)
	}
	return out
}

// Jobs returns the names of the Jobs in the namespace.
func (r *Rig) Jobs() []string {
	r.T.Helper()
	list, err := r.Cluster.BatchV1().Jobs(r.Namespace).List(r.T.Context(), metav1.ListOptions{})
	return namesOf(r, "", list.Items, err)
}

// History returns "revision status" of each revision of release t, in order. The release must exist.
func (r *Rig) History() []string {
	r.T.Helper()
	revisions := r.Revisions()
	if len(revisions) == 0 {
		r.T.Fatal("release t does not exist")
	}
	return revisions
}

// Revisions is like History, but the release may not exist.
func (r *Rig) Revisions() []string {
	r.T.Helper()
	list, err := r.Helm().Releases.History("t")
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		r.T.Fatal(err)
	}
	var revisions []*rel1.Release
	for _, x := range list {
		revisions = append(revisions, r.v1(x))
	}
	slices.SortFunc(revisions, func(a, b *rel1.Release) int { return a.Version - b.Version })
	var out []string
	for _, rel := range revisions {
		out = append(out, fmt.Sprintf("%d %s", rel.Version, rel.Info.Status))
	}
	return out
}

// Last returns "REVISION STATUS" of the last revision of a release, "none" if the release does not exist.
func (r *Rig) Last(name string) string {
	r.T.Helper()
	last, err := r.Helm().Releases.Last(name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return "none"
	}
	if err != nil {
		r.T.Fatal(err)
	}
	rel := r.v1(last)
	return fmt.Sprintf("%d %s", rel.Version, rel.Info.Status)
}

func (r *Rig) v1(x any) *rel1.Release {
	r.T.Helper()
	rel, err := release.AsV1(x)
	if err != nil {
		r.T.Fatal(err)
	}
	return rel
}

// AssertDeployed checks with Helm's SDK that a release is an ordinary Helm release, deployed once (R28).
func (r *Rig) AssertDeployed(name string) {
	r.T.Helper()
	cfg := r.Helm()
	list := action.NewList(cfg)
	releases, err := list.Run()
	if err != nil {
		r.T.Fatal(err)
	}
	var found []string
	for _, x := range releases {
		rel := r.v1(x)
		found = append(found, fmt.Sprintf("%s %d %s", rel.Name, rel.Version, rel.Info.Status))
	}
	if want := name + " 1 deployed"; len(found) != 1 || found[0] != want {
		r.T.Errorf("Helm lists %v, want [%s]", found, want)
	}
	x, err := action.NewGet(cfg).Run(name)
	if err != nil {
		r.T.Fatal(err)
	}
	rel := r.v1(x)
	if strings.Contains(rel.Manifest, "helm.sh/depends-on/") || strings.Contains(rel.Manifest, "helm.sh/dependson/") {
		r.T.Errorf("the stored manifest has annotation keys that the API server refuses (R3)")
	}
	if rec := release.ReadRecord(rel); rec == nil || !rec.Sequenced {
		r.T.Errorf("the release is not recorded as sequenced (R28): %+v", rec)
	}
}

// WrittenSince returns lockstep's writes to objects in the namespace since a time, as "verb URI".
func (r *Rig) WrittenSince(since time.Time) (out []string) {
	r.T.Helper()
	for _, e := range r.ownWrites(since, func(o auditlog.ObjectRef) bool { return o.Namespace == r.Namespace }) {
		out = append(out, e.Verb+" "+e.RequestURI)
	}
	return out
}

// Timings returns the timings of a revision (0: the latest) by "phase group".
func (r *Rig) Timings(revision int) map[string]release.Timing {
	r.T.Helper()
	v, err := r.Client.PrepareView(r.T.Context(), "t", r.Namespace, revision)
	if err != nil {
		r.T.Fatal(err)
	}
	out := map[string]release.Timing{}
	for _, x := range v.Course().Groups {
		out[x.Phase+" "+x.Group] = x
	}
	return out
}
