package diagnose

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	found := run.Finding{Cause: "not in the cluster", Symptom: true, Requests: 2}
	if o.Namespace == "" {
		return found
	}
	ns := d.Object(ctx, plan.Object{Kind: "Namespace", Name: o.Namespace})
	found.Requests += ns.Requests
	switch {
	case ns.Cause == found.Cause:
		found.Symptom, found.Cause = false, fmt.Sprintf("not in the cluster, and namespace %s does not exist", o.Namespace)
	case strings.HasPrefix(ns.Cause, goes):
		found.Symptom, found.Evidence = false, ns.Evidence
		found.Cause = fmt.Sprintf("not in the cluster, and namespace %s is being deleted%s", o.Namespace, strings.TrimPrefix(ns.Cause, goes))
	}
	return found
}

// protected is the finalizer of a claim that goes when no pod uses it any more.
const protected = "kubernetes.io/pvc-protection"

// goes begins the cause of what is being deleted.
const goes = "being deleted"

// finalizer says what takes a finalizer away, as far as that is common knowledge.
func (d *Diagnoser) finalizer(ctx context.Context, u *unstructured.Unstructured, name string) string {
	switch name {
	case protected:
		if users, _ := d.usersOf(ctx, u.GetNamespace(), u.GetName()); len(users) > 0 {
			return "in use by pod " + strings.Join(users, ", ")
		}
		return "in use by a pod"
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
			lines = append(lines, fmt.Sprintf("%s/%s is waiting for finalizer %s", u.GetKind(), u.GetName(), strings.Join(u.GetFinalizers(), ", ")))
		}
	}
	return lines
}

// claimsAt is how many claims of a pod are looked at.
const claimsAt = 3

// claimsOfPod follows a pod that cannot be placed to the claim that it waits for. The
// scheduler says nothing while it waits for a volume that is to be made for the pod.
func (d *Diagnoser) claimsOfPod(ctx context.Context, p Pod) lead {
	claimed := p.trouble == unplaced && strings.Contains(strings.ToLower(strings.ReplaceAll(p.Why, " ", "")), "persistentvolume")
	if !claimed && (p.trouble != young || p.Node != "" || p.Phase != "pending") {
		return lead{}
	}
	for _, name := range p.claims[:min(claimsAt, len(p.claims))] {
		if l := d.claim(ctx, p.Namespace, name); l.cause != "" {
			l.cause = fmt.Sprintf("pod %s cannot be scheduled: claim %s %s", p.Name, name, l.cause)
			l.evidence = append(l.evidence, p.Why)
			return l
		}
	}
	return lead{}
}

// claim says why a claim has no volume: what its class, the volume that it names
// and its own events tell, in this order. The events come late, every 15 s.
func (d *Diagnoser) claim(ctx context.Context, namespace, name string) lead {
	c, err := d.kube.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return lead{cause: "does not exist"}
	case err != nil:
		return lead{cause: "cannot be read", gaps: []string{gapText("claim "+name, err)}, symptom: true}
	case c.Status.Phase == corev1.ClaimBound:
		return lead{}
	case c.Status.Phase == corev1.ClaimLost:
		return lead{cause: fmt.Sprintf("lost its volume %s, which was deleted", c.Spec.VolumeName)}
	}
	said, err := d.events(ctx, ref{kind: "PersistentVolumeClaim", namespace: namespace, name: name, uid: c.UID})
	l := d.unbound(ctx, c, said)
	for i := len(said) - 1; i >= 0; i-- {
		l.evidence = append(l.evidence, "claim "+name+": "+said[i].Reason+": "+said[i].Message)
	}
	if err != nil {
		l.gaps = append(l.gaps, gapText("events", err))
	}
	class := "no class"
	if c.Spec.StorageClassName != nil {
		class = fmt.Sprintf("class %q", *c.Spec.StorageClassName)
	}
	l.evidence = append(l.evidence, fmt.Sprintf("claim %s is %s: %s, %s", name, strings.ToLower(string(c.Status.Phase)), class, wants(c)))
	return l
}

func (d *Diagnoser) unbound(ctx context.Context, c *corev1.PersistentVolumeClaim, said []Event) lead {
	if e := latest(said, "VolumeMismatch", "ProvisioningFailed"); e != nil && !strings.Contains(e.Message, "not found") {
		return lead{cause: "has no volume: " + e.Message}
	}
	if c.Spec.VolumeName != "" {
		_, err := d.kube.CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return lead{cause: fmt.Sprintf("has no volume: volume %s, which it names, does not exist", c.Spec.VolumeName)}
		}
		return lead{cause: fmt.Sprintf("is not bound to volume %s yet", c.Spec.VolumeName), symptom: true}
	}
	if c.Spec.StorageClassName == nil {
		return d.unclassed(ctx)
	}
	if *c.Spec.StorageClassName == "" {
		return lead{cause: fmt.Sprintf("has no volume: it asks for no StorageClass (storageClassName: \"\"), and no existing volume fits %s", wants(c))}
	}
	class, err := d.kube.StorageV1().StorageClasses().Get(ctx, *c.Spec.StorageClassName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return lead{cause: fmt.Sprintf("has no volume: StorageClass %s does not exist, and no volume of that class fits %s", *c.Spec.StorageClassName, wants(c))}
	case err != nil:
		return lead{cause: "has no volume of class " + *c.Spec.StorageClassName + " yet", gaps: []string{gapText("StorageClass "+*c.Spec.StorageClassName, err)}, symptom: true}
	}
	return d.unprovisioned(ctx, c, class)
}

// unclassed says what became of a claim that names no class: it gets the default one.
func (d *Diagnoser) unclassed(ctx context.Context) lead {
	const none = "has no volume: it names no StorageClass"
	list, err := d.kube.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return lead{cause: none, gaps: []string{gapText("StorageClasses", err)}}
	}
	for _, c := range list.Items {
		if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			return lead{cause: none + fmt.Sprintf(", and has not received the default one, %s, yet", c.Name), symptom: true}
		}
	}
	return lead{cause: none + ", and there is no default"}
}

// unprovisioned is what keeps a class that there is from giving a volume.
func (d *Diagnoser) unprovisioned(ctx context.Context, c *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) lead {
	late := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	switch {
	case late && c.Annotations["volume.kubernetes.io/selected-node"] == "":
		return lead{cause: fmt.Sprintf("has no volume: StorageClass %s provisions one only once a pod that uses it is scheduled (WaitForFirstConsumer); put the claim into that pod's group", class.Name)}
	case class.Provisioner == "kubernetes.io/no-provisioner":
		return lead{cause: fmt.Sprintf("has no volume: StorageClass %s does not provision volumes, and no existing volume fits %s", class.Name, wants(c))}
	}
	l := lead{cause: fmt.Sprintf("has no volume: provisioner %s of StorageClass %s has not created one", class.Provisioner, class.Name)}
	switch _, err := d.kube.StorageV1().CSIDrivers().Get(ctx, class.Provisioner, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		l.cause += ", and no CSIDriver with that name is installed"
	case err != nil:
		l.gaps = append(l.gaps, gapText("CSIDriver "+class.Provisioner, err))
	}
	return l
}

// wants is what a claim asks for, "10Gi, ReadWriteMany".
func wants(c *corev1.PersistentVolumeClaim) string {
	size := c.Spec.Resources.Requests[corev1.ResourceStorage]
	parts := []string{size.String()}
	for _, m := range c.Spec.AccessModes {
		parts = append(parts, string(m))
	}
	return strings.Join(parts, ", ")
}

// latest is the newest of some events that has one of the reasons.
func latest(events []Event, reasons ...string) *Event {
	for i := len(events) - 1; i >= 0; i-- {
		for _, r := range reasons {
			if events[i].Reason == r {
				return &events[i]
			}
		}
	}
	return nil
}
