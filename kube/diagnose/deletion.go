package diagnose

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/status"
)

// deletionGrace is how long the failure of an object that is being deleted is reported instead of the deletion.
const deletionGrace = 15 * time.Second

// ignoreRecentDeletion makes the report treat a failed object as if it were not being deleted, within deletionGrace.
func (b *reportBuilder) ignoreRecentDeletion() {
	since := b.live.GetDeletionTimestamp()
	if since == nil || time.Since(since.Time) > deletionGrace {
		return
	}
	undeleted := &reportBuilder{object: b.object, live: b.live.DeepCopy()}
	undeleted.live.SetDeletionTimestamp(nil)
	if undeleted.verdict().Status == event.Failed {
		b.live = undeleted.live
	}
}

// deletionCause finds out why an object that is being deleted still exists.
func (d *Diagnoser) deletionCause(ctx context.Context, u *unstructured.Unstructured) finding {
	f := finding{deletion: status.Compute(u, status.Rule{}, time.Now()).Message}
	if slices.Contains(u.GetFinalizers(), claimProtection) {
		_, f.fails, _ = d.podsUsing(ctx, u.GetNamespace(), u.GetName()) // finalizerReason reports the error
	}
	f.evidence = d.finalizerLines(ctx, u)
	switch u.GroupVersionKind().GroupKind().String() {
	case "Namespace":
		f.evidence = append(d.remainingObjects(ctx, u), unhealthyConditionLines(u)...)
	case "CustomResourceDefinition.apiextensions.k8s.io", "Pod":
		f.evidence = append(f.evidence, unhealthyConditionLines(u)...)
	}
	if len(u.GetFinalizers()) == 1 {
		f.deletion += ": " + d.finalizerReason(ctx, u, u.GetFinalizers()[0])
	} else if u.GetKind() == "Namespace" && len(f.evidence) > 0 && strings.Contains(f.evidence[0], "finalizer") {
		f.deletion += ": " + f.evidence[0]
	}
	f.cause = "being deleted: " + f.deletion
	return f
}

// addNamespaceDeletion makes the deletion of the namespace the cause of an object that is deleted with it, or whose pods are.
func (d *Diagnoser) addNamespaceDeletion(ctx context.Context, b *reportBuilder) {
	if b.live.GetNamespace() == "" {
		return
	}
	ns, err := d.get(ctx, plan.Object{Kind: "Namespace", Name: b.live.GetNamespace()})
	if err != nil || ns.GetDeletionTimestamp() == nil {
		return
	}
	f := d.deletionCause(ctx, ns)
	b.found.cause, b.found.symptom, b.found.fails = fmt.Sprintf("namespace %s is %s", ns.GetName(), f.cause), false, true
	b.found.evidence = append(f.evidence, b.found.evidence...)
}

// Terminating returns why an object that is being deleted still exists: its finalizers, and
// the objects that use it. It returns false if the object is gone or not being deleted.
func (d *Diagnoser) Terminating(ctx context.Context, o plan.Object) (why string, terminating bool) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	u, err := d.get(ctx, o)
	if err != nil || u.GetDeletionTimestamp() == nil {
		return "", false
	}
	if parts := d.finalizerLines(ctx, u); len(parts) > 0 {
		return strings.Join(parts, "; "), true
	}
	return status.Compute(u, status.Rule{}, time.Now()).Message, true
}

// notInCluster is the cause for an object that does not exist.
const notInCluster = "not in the cluster"

// missing reports an object that does not exist. Unless its namespace is missing or being deleted, this is only a
// symptom: an earlier failure of the object explains more.
func (d *Diagnoser) missing(ctx context.Context, o plan.Object) Report {
	found := Report{Finding: run.Finding{Cause: notInCluster, Symptom: true, Requests: 2}, absent: true}
	if o.Namespace == "" {
		return found
	}
	ns := d.Object(ctx, plan.Object{Kind: "Namespace", Name: o.Namespace})
	found.Requests += ns.Requests
	switch {
	case ns.absent:
		found.Symptom, found.Cause = false, fmt.Sprintf("not in the cluster, and namespace %s does not exist", o.Namespace)
	case ns.deletion != "":
		found.Symptom, found.Evidence = false, ns.Evidence
		found.Cause = fmt.Sprintf("not in the cluster, and namespace %s is being deleted: %s", o.Namespace, ns.deletion)
	}
	return found
}

// claimProtection is the finalizer that keeps a claim while pods use it.
const claimProtection = "kubernetes.io/pvc-protection"

// finalizerLines describes what each finalizer of an object waits for.
func (d *Diagnoser) finalizerLines(ctx context.Context, u *unstructured.Unstructured) (lines []string) {
	for _, f := range u.GetFinalizers() {
		lines = append(lines, "finalizer "+f+": "+d.finalizerReason(ctx, u, f))
	}
	return lines
}

// finalizerReason says what a finalizer waits for.
func (d *Diagnoser) finalizerReason(ctx context.Context, u *unstructured.Unstructured, name string) string {
	switch name {
	case claimProtection:
		if use := d.ClaimUse(ctx, u.GetNamespace(), u.GetName()); use != "" {
			return use
		}
	case "kubernetes.io/pv-protection":
		if claim, _, _ := unstructured.NestedString(u.Object, "spec", "claimRef", "name"); claim != "" {
			return "bound to claim " + claim
		}
		return "bound to a claim"
	case metav1.FinalizerDeleteDependents:
		return "the objects it owns are deleted first"
	case "service.kubernetes.io/load-balancer-cleanup":
		return "the cloud's load balancer must be removed first"
	case "customresourcecleanup.apiextensions.k8s.io":
		return "its resources are deleted first"
	}
	return "its controller has not removed it"
}

const (
	maxListed   = 3   // the objects that a cause names
	maxPodsRead = 500 // the pods that are searched for users of a claim
)

// podsUsing returns up to maxListed pods that use a claim. inUse reports whether a pod that is not being deleted uses it.
// The error says why there may be others.
func (d *Diagnoser) podsUsing(ctx context.Context, namespace, claim string) (names []string, inUse bool, err error) {
	list, err := d.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: maxPodsRead})
	if err != nil {
		return nil, false, errors.New(Unreadable("pods", err))
	}
	for i := range list.Items {
		for _, c := range claimNames(&list.Items[i]) {
			if c != claim {
				continue
			}
			inUse = inUse || list.Items[i].DeletionTimestamp == nil
			if len(names) < maxListed {
				names = append(names, list.Items[i].Name)
			}
		}
	}
	if len(names) == 0 && list.Continue != "" {
		err = fmt.Errorf("only the first %d pods were checked", maxPodsRead)
	}
	return names, inUse, err
}

// ClaimUse says which pods use a claim, "" if none does.
func (d *Diagnoser) ClaimUse(ctx context.Context, namespace, claim string) string {
	switch users, _, err := d.podsUsing(ctx, namespace, claim); {
	case len(users) > 0:
		return "in use by " + plural(fmt.Sprint(len(users)), "pod ", "pods ") + strings.Join(users, ", ")
	case err != nil:
		return "probably in use by a pod (" + err.Error() + ")"
	}
	return ""
}

// claimNames returns the names of a pod's claims. A generic ephemeral volume has a claim named after pod and volume.
func claimNames(p *corev1.Pod) (names []string) {
	for _, v := range p.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, p.Name+"-"+v.Name)
		}
	}
	return names
}

// remainingResource matches the resources in the NamespaceContentRemaining condition.
var remainingResource = regexp.MustCompile(`(\S+?)\.? has \d+ resource instances`)

// remainingObjects lists objects of up to two resources whose finalizers block the deletion of a namespace.
func (d *Diagnoser) remainingObjects(ctx context.Context, ns *unstructured.Unstructured) (lines []string) {
	for _, c := range listConditions(ns) {
		if c.kind != "NamespaceContentRemaining" || c.status != "True" {
			continue
		}
		for _, m := range remainingResource.FindAllStringSubmatch(c.message, 2) {
			lines = append(lines, d.heldByFinalizers(ctx, ns.GetName(), schema.ParseGroupResource(m[1]))...)
		}
	}
	return lines
}

// heldByFinalizers lists up to maxListed objects of a resource that have finalizers.
func (d *Diagnoser) heldByFinalizers(ctx context.Context, namespace string, r schema.GroupResource) (lines []string) {
	mapper, err := d.clients.ToRESTMapper()
	if err != nil {
		return nil
	}
	gvr, err := mapper.ResourceFor(r.WithVersion(""))
	if err != nil {
		return nil
	}
	list, err := d.dyn.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 100})
	if err != nil {
		return []string{Unreadable(r.String(), err)}
	}
	for i := range list.Items {
		if u := &list.Items[i]; len(u.GetFinalizers()) > 0 && len(lines) < maxListed {
			lines = append(lines, fmt.Sprintf("%s/%s is waiting for %s", u.GetKind(), u.GetName(), text.Named("finalizer", u.GetFinalizers())))
		}
	}
	return lines
}
