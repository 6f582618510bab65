package rig

import (
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

	"lockstep/kube"
	"lockstep/kube/release"
	"lockstep/kube/throwaway/auditlog"
)

// Changes plans an operation and returns its changes as "group object action", and the diffs by object.
func (r *Rig) Changes(op *kube.Operation, err error) (lines []string, diffs map[string]kube.Change) {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
	all, err := op.Changes(r.T.Context())
	if err != nil {
		r.T.Fatal(err)
	}
	diffs = map[string]kube.Change{}
	for _, c := range all {
		lines = append(lines, c.Group+" "+c.Object.String()+" "+string(c.Action))
		diffs[c.Object.String()] = c
	}
	return lines, diffs
}

// Writes returns lockstep's writes in the test's namespace, without reviews of rights.
func (r *Rig) Writes() []string {
	r.T.Helper()
	return verbs(r.ownWrites(time.Time{}, func(o auditlog.ObjectRef) bool { return o.Namespace == r.Namespace || o.Name == r.Namespace }))
}

// WritesOf returns lockstep's writes since a time, including those to cluster-scoped objects with the test's name.
func (r *Rig) WritesOf(since time.Time) []string {
	r.T.Helper()
	return verbs(r.ownWrites(since, func(o auditlog.ObjectRef) bool {
		return o.Namespace == r.Namespace || strings.Contains(o.Name, r.Namespace)
	}))
}

// ownWrites returns lockstep's writes to some objects since a time.
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

func (r *Rig) Data(name string) map[string]string {
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
	log, err := Sandbox.Log()
	if err != nil {
		r.T.Fatal(err)
	}
	return slices.ContainsFunc(log.Namespace(r.Namespace).UserAgent("lockstep"), func(e auditlog.Event) bool {
		return e.Verb == "watch" && e.Stage == auditlog.ResponseStarted && e.Object.Resource == resource
	})
}

// ConfigMaps returns the names of the ConfigMaps in a namespace, without the cluster's own.
func (r *Rig) ConfigMaps(namespace string) []string {
	r.T.Helper()
	list, err := r.Cluster.CoreV1().ConfigMaps(namespace).List(r.T.Context(), metav1.ListOptions{})
	names := namesOf(r, "", list.Items, err)
	return slices.DeleteFunc(names, func(name string) bool { return name == "kube-root-ca.crt" })
}

// namesOf returns the names of listed objects with a prefix.
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

// PatchConfigMap patches a ConfigMap as another user.
func (r *Rig) PatchConfigMap(name, patch string) {
	r.T.Helper()
	if _, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(r.T.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		r.T.Fatal(err)
	}
}

// Eventually waits until a condition holds.
func (r *Rig) Eventually(what string, so func() bool) {
	r.T.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.T.Errorf("not so after a minute: %s", what)
			return
		}
	}
}

// Status returns the status of the test's release in Helm's storage, "" if it does not exist.
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

// Left returns the Deployments and ConfigMaps with Helm's label, and all Jobs, in the namespace.
func (r *Rig) Left() []string {
	r.T.Helper()
	opts := metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=Helm"}
	deployments, err := r.Cluster.AppsV1().Deployments(r.Namespace).List(r.T.Context(), opts)
	out := namesOf(r, "Deployment/", deployments.Items, err)
	maps, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).List(r.T.Context(), opts)
	out = append(out, namesOf(r, "ConfigMap/", maps.Items, err)...)
	jobs, err := r.Cluster.BatchV1().Jobs(r.Namespace).List(r.T.Context(), metav1.ListOptions{})
	return append(out, namesOf(r, "Job/", jobs.Items, err)...)
}

// Jobs returns the names of the Jobs in the namespace.
func (r *Rig) Jobs() []string {
	r.T.Helper()
	list, err := r.Cluster.BatchV1().Jobs(r.Namespace).List(r.T.Context(), metav1.ListOptions{})
	return namesOf(r, "", list.Items, err)
}

// History returns "revision status" of each revision, in order, from Helm's SDK.
func (r *Rig) History() []string {
	r.T.Helper()
	revisions := r.Revisions()
	if len(revisions) == 0 {
		r.T.Fatal("there is no release")
	}
	return revisions
}

// Revisions returns the history, empty if the release does not exist.
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

func (r *Rig) v1(x any) *rel1.Release {
	r.T.Helper()
	rel, err := release.AsV1(x)
	if err != nil {
		r.T.Fatal(err)
	}
	return rel
}

// Labelled returns the remaining objects of a release, without hooks.
func (r *Rig) Labelled() []string {
	return slices.DeleteFunc(r.Left(), func(o string) bool { return strings.HasPrefix(o, "Job/") })
}

// AssertDeployed checks with Helm's SDK that a release is an ordinary, deployed one (R28).
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
		r.T.Errorf("the stored manifest has annotation keys that an API server refuses (R3)")
	}
	if rec := release.ReadRecord(rel); rec == nil || !rec.Sequenced {
		r.T.Errorf("the release does not tell that it was sequenced (R28): %+v", rec)
	}
}

// Written returns the writes in the test's namespace since a time, without dry runs.
func (r *Rig) Written(since time.Time) (out []string) {
	r.T.Helper()
	for _, e := range r.ownWrites(since, func(o auditlog.ObjectRef) bool { return o.Namespace == r.Namespace }) {
		out = append(out, e.Verb+" "+e.RequestURI)
	}
	return out
}

// Timings returns the timings of a revision (0 for the latest) by phase and group.
func (r *Rig) Timings(revision int) map[string]kube.Timing {
	r.T.Helper()
	v, err := r.Client.PrepareView(r.T.Context(), "t", r.Namespace, revision)
	if err != nil {
		r.T.Fatal(err)
	}
	out := map[string]kube.Timing{}
	for _, x := range v.Timings() {
		out[x.Phase+" "+x.Group] = x
	}
	return out
}
