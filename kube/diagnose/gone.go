package diagnose

import (
	"context"
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
	"lockstep/kube/status"
)

// goingFor is how long a Job that has failed may take to go, once its TTL has it
// removed, before the news is that it is still there.
const goingFor = 15 * time.Second

// asItFailed takes an object that failed and is now going for one that stays:
// what it failed of is what is asked for, not that it goes.
func (q *inquiry) asItFailed() {
	since := q.live.GetDeletionTimestamp()
	if since == nil || time.Since(since.Time) > goingFor {
		return
	}
	stays := &inquiry{object: q.object, live: q.live.DeepCopy()}
	stays.live.SetDeletionTimestamp(nil)
	if stays.verdict().Status == event.Failed {
		q.live = stays.live
	}
}

// gone says why an object that is being deleted is still there.
func (d *Diagnoser) gone(ctx context.Context, u *unstructured.Unstructured) lead {
	v := status.Compute(u, status.Rule{}, time.Now())
	l := lead{cause: goes + ": " + v.Message}
	if slices.Contains(u.GetFinalizers(), protected) {
		_, l.fails = d.usersOf(ctx, u.GetNamespace(), u.GetName())
	}
	for _, f := range u.GetFinalizers() {
		l.evidence = append(l.evidence, "finalizer "+f+": "+d.finalizer(ctx, u, f))
	}
	switch u.GroupVersionKind().GroupKind().String() {
	case "Namespace":
		l.evidence = append(d.remaining(ctx, u), conditions(u)...)
	case "CustomResourceDefinition.apiextensions.k8s.io", "Pod":
		l.evidence = append(l.evidence, conditions(u)...)
	}
	if len(u.GetFinalizers()) == 1 {
		l.cause += ": " + d.finalizer(ctx, u, u.GetFinalizers()[0])
	} else if u.GetKind() == "Namespace" && len(l.evidence) > 0 && strings.Contains(l.evidence[0], "finalizer") {
		l.cause += ": " + l.evidence[0]
	}
	return l
}

// Terminating says what keeps an object that is being deleted: its finalizers, and who
// uses it. It returns false where the object is gone, or not being deleted.
func (d *Diagnoser) Terminating(ctx context.Context, o plan.Object) (why string, is bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	u, err := d.get(ctx, o)
	if err != nil || u.GetDeletionTimestamp() == nil {
		return "", false
	}
	var parts []string
	for _, f := range u.GetFinalizers() {
		parts = append(parts, "finalizer "+f+": "+d.finalizer(ctx, u, f))
	}
	if len(parts) == 0 {
		return status.Compute(u, status.Rule{}, time.Now()).Message, true
	}
	return strings.Join(parts, "; "), true
}

// absent says that an object is not in the cluster, and where its namespace is not
// either, or goes, that, too. Otherwise it says less than what the object has failed of before it went.
func (d *Diagnoser) absent(ctx context.Context, o plan.Object) run.Finding {
	found := run.Finding{Cause: "it is not in the cluster", Symptom: true, Requests: 2}
	if o.Namespace == "" {
		return found
	}
	ns := d.Object(ctx, plan.Object{Kind: "Namespace", Name: o.Namespace})
	found.Requests += ns.Requests
	switch {
	case ns.Cause == found.Cause:
		found.Symptom, found.Cause = false, fmt.Sprintf("it is not in the cluster, nor is namespace %s", o.Namespace)
	case strings.HasPrefix(ns.Cause, goes):
		found.Symptom, found.Evidence = false, ns.Evidence
		found.Cause = fmt.Sprintf("it is not in the cluster, and namespace %s is being deleted%s", o.Namespace, strings.TrimPrefix(ns.Cause, goes))
	}
	return found
}

// protected is the finalizer of a claim that goes when no pod uses it any more.
const protected = "kubernetes.io/pvc-protection"

// goes begins the cause of what is being deleted.
const goes = "it is being deleted"

// finalizer says what takes a finalizer away, as far as that is common knowledge.
func (d *Diagnoser) finalizer(ctx context.Context, u *unstructured.Unstructured, name string) string {
	switch name {
	case protected:
		if users, _ := d.usersOf(ctx, u.GetNamespace(), u.GetName()); len(users) > 0 {
			return "it is in use by pod " + strings.Join(users, ", ")
		}
		return "it stays for as long as a pod uses it"
	case "kubernetes.io/pv-protection":
		if claim, _, _ := unstructured.NestedString(u.Object, "spec", "claimRef", "name"); claim != "" {
			return "it is bound to claim " + claim
		}
		return "it stays for as long as a claim is bound to it"
	case metav1.FinalizerDeleteDependents:
		return "what it owns goes first"
	case "service.kubernetes.io/load-balancer-cleanup":
		return "the cloud's load balancer has to be removed first"
	case "customresourcecleanup.apiextensions.k8s.io":
		return "its resources go first"
	}
	return "whoever has put it there has to take it away, and does not"
}

// usersOf are the pods that use a claim; stays tells that one of them is there to stay.
func (d *Diagnoser) usersOf(ctx context.Context, namespace, claim string) (names []string, stays bool) {
	list, err := d.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 500})
	if err != nil {
		return nil, false
	}
	for i := range list.Items {
		for _, c := range claimsOf(&list.Items[i]) {
			if c != claim {
				continue
			}
			stays = stays || list.Items[i].DeletionTimestamp == nil
			if len(names) < claimsAt {
				names = append(names, list.Items[i].Name)
			}
		}
	}
	return names, stays
}

// claimsOf are the names of the claims that a pod uses.
func claimsOf(p *corev1.Pod) (names []string) {
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

// left is how a namespace names a resource of which something is left.
var left = regexp.MustCompile(`(\S+)\. has \d+ resource instances|(\S+) has \d+ resource instances`)

// remaining names objects that keep a namespace from going, by their finalizers.
func (d *Diagnoser) remaining(ctx context.Context, ns *unstructured.Unstructured) (lines []string) {
	for _, c := range conditionsOf(ns) {
		if c.kind != "NamespaceContentRemaining" || c.status != "True" {
			continue
		}
		for _, m := range left.FindAllStringSubmatch(c.message, 2) {
			lines = append(lines, d.held(ctx, ns.GetName(), schema.ParseGroupResource(strings.TrimSuffix(m[1]+m[2], ".")))...)
		}
	}
	return lines
}

// held are the objects of a resource that finalizers keep.
func (d *Diagnoser) held(ctx context.Context, namespace string, r schema.GroupResource) (lines []string) {
	mapper, err := d.mapper.ToRESTMapper()
	if err != nil {
		return nil
	}
	gvr, err := mapper.ResourceFor(r.WithVersion(""))
	if err != nil {
		return nil
	}
	list, err := d.dyn.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 100})
	if err != nil {
		return []string{gapText(r.String(), err)}
	}
	for i := range list.Items {
		if u := &list.Items[i]; len(u.GetFinalizers()) > 0 && len(lines) < claimsAt {
			lines = append(lines, fmt.Sprintf("%s/%s waits for finalizer %s", u.GetKind(), u.GetName(), strings.Join(u.GetFinalizers(), ", ")))
		}
	}
	return lines
}
