package kube

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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/kube/release"
	"lockstep/kube/throwaway/auditlog"
)

// writes counts what lockstep has written in the test's namespace; questions
// about rights write nothing.
func (r *rig) writes() []string {
	r.t.Helper()
	var out []string
	for _, e := range r.audit() {
		if e.UserAgent == "lockstep" && (e.Object.Namespace == r.namespace || e.Object.Name == r.namespace) {
			out = append(out, e.Verb+" "+e.Object.Resource+"/"+e.Object.Name)
		}
	}
	return out
}

// writesOf lists our writes since a time, also those of cluster scope to what
// has the test's name.
func (r *rig) writesOf(since time.Time) (out []string) {
	r.t.Helper()
	for _, e := range r.audit() {
		if e.Received.After(since) && e.UserAgent == "lockstep" && (e.Object.Namespace == r.namespace || strings.Contains(e.Object.Name, r.namespace)) {
			out = append(out, e.Verb+" "+e.Object.Resource+"/"+e.Object.Name)
		}
	}
	return out
}

func (r *rig) assertHistory(want ...string) {
	r.t.Helper()
	if got := r.history(); !slices.Equal(got, want) {
		r.t.Errorf("history %v, want %v", got, want)
	}
}

func (r *rig) data(name string) map[string]string {
	r.t.Helper()
	c, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return c.Data
}

// watched reports whether we have a watch on a resource in the namespace.
func (r *rig) watched(resource string) bool {
	r.t.Helper()
	log, err := auditlog.Read(sandbox.AuditLog)
	if err != nil {
		r.t.Fatal(err)
	}
	return slices.ContainsFunc(log.Namespace(r.namespace).UserAgent("lockstep"), func(e auditlog.Event) bool {
		return e.Verb == "watch" && e.Stage == auditlog.ResponseStarted && e.Object.Resource == resource
	})
}

// posts are the times at which we created objects of a resource, in order.
func (r *rig) posts(resource string) (at []time.Time) {
	r.t.Helper()
	for _, e := range r.audit() {
		if e.UserAgent == "lockstep" && e.Verb == "create" && e.Object.Resource == resource && e.Object.Namespace == r.namespace {
			at = append(at, e.Received)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	return at
}

// configMaps are the names of the ConfigMaps in a namespace, but the cluster's.
func (r *rig) configMaps(namespace string) []string {
	r.t.Helper()
	list, err := r.cluster.CoreV1().ConfigMaps(namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, c := range list.Items {
		if c.Name != "kube-root-ca.crt" {
			names = append(names, c.Name)
		}
	}
	return names
}

// patch changes an object as somebody else would.
func (r *rig) patchConfigMap(name, patch string) {
	r.t.Helper()
	if _, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Patch(r.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		r.t.Fatal(err)
	}
}

// eventually waits until something is so.
func (r *rig) eventually(what string, so func() bool) {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Second); !so(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Errorf("not so after 10 s: %s", what)
			return
		}
	}
}

// status is what Helm itself says of the test's release, "" where there is
// none.
func (r *rig) status() rcommon.Status {
	r.t.Helper()
	last, err := r.helm().Releases.Last("t")
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return ""
	}
	if err != nil {
		r.t.Fatal(err)
	}
	rel, err := release.AsV1(last)
	if err != nil {
		r.t.Fatal(err)
	}
	return rel.Info.Status
}

// left lists the Deployments, ConfigMaps and Jobs that carry Helm's label in
// the namespace.
func (r *rig) left() []string {
	r.t.Helper()
	var out []string
	opts := metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=Helm"}
	deployments, err := r.cluster.AppsV1().Deployments(r.namespace).List(r.t.Context(), opts)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, d := range deployments.Items {
		out = append(out, "Deployment/"+d.Name)
	}
	maps, err := r.cluster.CoreV1().ConfigMaps(r.namespace).List(r.t.Context(), opts)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range maps.Items {
		out = append(out, "ConfigMap/"+m.Name)
	}
	jobs, err := r.cluster.BatchV1().Jobs(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, j := range jobs.Items {
		out = append(out, "Job/"+j.Name)
	}
	return out
}

// jobs are the names of the Jobs in the namespace that are there to stay.
func (r *rig) jobs() (names []string) {
	r.t.Helper()
	list, err := r.cluster.BatchV1().Jobs(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		r.t.Fatal(err)
	}
	for _, j := range list.Items {
		names = append(names, j.Name)
	}
	return names
}

// history is "revision status" of each revision, in order, by Helm's own SDK.
func (r *rig) history() []string {
	r.t.Helper()
	revisions := r.revisions()
	if len(revisions) == 0 {
		r.t.Fatal("there is no release")
	}
	return revisions
}

// revisions is the history, empty where there is no release.
func (r *rig) revisions() []string {
	r.t.Helper()
	list, err := r.helm().Releases.History("t")
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		r.t.Fatal(err)
	}
	var revisions []*rel1.Release
	for _, x := range list {
		rel, err := release.AsV1(x)
		if err != nil {
			r.t.Fatal(err)
		}
		revisions = append(revisions, rel)
	}
	slices.SortFunc(revisions, func(a, b *rel1.Release) int { return a.Version - b.Version })
	var out []string
	for _, rel := range revisions {
		out = append(out, fmt.Sprintf("%d %s", rel.Version, rel.Info.Status))
	}
	return out
}

// labelled lists what of a release is left, hooks not counted.
func (r *rig) labelled() []string {
	var out []string
	for _, o := range r.left() {
		if !strings.HasPrefix(o, "Job/") {
			out = append(out, o)
		}
	}
	return out
}

// assertDeployed shows through Helm's own SDK that a release is an ordinary
// one, deployed (R28).
func (r *rig) assertDeployed(name string) {
	r.t.Helper()
	cfg := r.helm()
	list := action.NewList(cfg)
	releases, err := list.Run()
	if err != nil {
		r.t.Fatal(err)
	}
	var found []string
	for _, x := range releases {
		rel, err := release.AsV1(x)
		if err != nil {
			r.t.Fatal(err)
		}
		found = append(found, fmt.Sprintf("%s %d %s", rel.Name, rel.Version, rel.Info.Status))
	}
	if want := name + " 1 deployed"; len(found) != 1 || found[0] != want {
		r.t.Errorf("Helm lists %v, want [%s]", found, want)
	}
	x, err := action.NewGet(cfg).Run(name)
	if err != nil {
		r.t.Fatal(err)
	}
	rel, err := release.AsV1(x)
	if err != nil {
		r.t.Fatal(err)
	}
	if strings.Contains(rel.Manifest, "helm.sh/depends-on/") || strings.Contains(rel.Manifest, "helm.sh/dependson/") {
		r.t.Errorf("the stored manifest has annotation keys that an API server refuses (R3)")
	}
	if rec := release.ReadRecord(rel); rec == nil || !rec.Sequenced {
		r.t.Errorf("the release does not tell that it was sequenced (R28): %+v", rec)
	}
}

// written lists what was written in a test's namespace since a time; dry runs
// do not count.
func (r *rig) written(since time.Time) (out []string) {
	r.t.Helper()
	for _, e := range r.audit() {
		if e.Received.After(since) && e.UserAgent == "lockstep" && e.Object.Namespace == r.namespace {
			out = append(out, e.Verb+" "+e.RequestURI)
		}
	}
	return out
}
