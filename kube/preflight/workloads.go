package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
	"lockstep/kube/diagnose"
	"lockstep/kube/images"
	"lockstep/kube/manifest"
	"lockstep/kube/session"
)

var podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// budget is a PodDisruptionBudget of the plan.
type budget struct {
	from     *incomingObject
	selector labels.Selector
}

// idleBudgets returns the PodDisruptionBudgets that select the pods of no workload of the plan. It returns none
// if the plan has custom resources that may create other pods.
func (planned *plannedObjects) idleBudgets() (idle []budget) {
	if slices.ContainsFunc(planned.objects, func(o *incomingObject) bool { return isActive(o.Object) }) {
		return nil
	}
	for _, o := range planned.objects {
		if o.Kind != "PodDisruptionBudget" || o.Object.Group != policyv1.GroupName {
			continue
		}
		var b policyv1.PodDisruptionBudget
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.fields, &b) != nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || selector.Empty() { // an empty selector selects all pods of the namespace
			continue
		}
		matched := slices.ContainsFunc(planned.objects, func(other *incomingObject) bool {
			pods, ok := refs.FindPods(other.Object, other.fields) // of a workload with 0 replicas too: it protects nothing by design
			podLabels, _, err := unstructured.NestedStringMap(pods.Meta, "labels")
			return ok && err == nil && other.Namespace == o.Namespace && selector.Matches(labels.Set(podLabels))
		})
		if !matched {
			idle = append(idle, budget{o, selector})
		}
	}
	return idle
}

// checkBudgets warns about PodDisruptionBudgets that select no pods in the plan or the cluster.
func (v *clusterView) checkBudgets(planned *plannedObjects) (warnings []plan.Warning) {
	podLabels := map[string][]labels.Set{}
	for _, b := range planned.idleBudgets() {
		ns := b.from.Namespace
		if _, listed := podLabels[ns]; !listed && ns != v.newNamespace {
			l, err := v.Client.Metadata.Resource(podResource).Namespace(ns).List(v.Context, metav1.ListOptions{})
			if v.recordFailure(err, "pods", ns) {
				continue
			}
			podLabels[ns] = nil
			for _, pod := range l.Items {
				podLabels[ns] = append(podLabels[ns], pod.Labels)
			}
		}
		if !slices.ContainsFunc(podLabels[ns], func(l labels.Set) bool { return b.selector.Matches(l) }) {
			warnings = append(warnings, b.warning())
		}
	}
	return warnings
}

func (b budget) warning() plan.Warning {
	return b.from.warning("%s matches pods with %s, but neither the chart nor namespace %s has any, so it protects nothing",
		b.from, b.selector, b.from.Namespace)
}

// checkJobs warns about suspended Jobs that must complete: they have no pods, so they never do (R22).
func (planned *plannedObjects) checkJobs() (warnings []plan.Warning) {
	for _, o := range planned.objects {
		spec, _ := o.fields["spec"].(map[string]any)
		if suspended, _ := spec["suspend"].(bool); suspended && o.IsJob() && (o.hook || o.position.group.JobsComplete) {
			warnings = append(warnings, o.warning("%s is suspended, so it does not complete until something resumes it; the run waits for that; "+
				"remove spec.suspend, or pass --wait-for-jobs=false", o))
		}
	}
	return warnings
}

// keptPods warns about objects whose pod template changes, although nothing replaces their pods: they count with those that they
// have (R22).
func keptPods(changes []change) (warnings []plan.Warning) {
	template := func(i *resource.Info) any {
		u, _ := i.Object.(*unstructured.Unstructured)
		v, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template")
		return v
	}
	for _, c := range changes {
		if o := c.object; refs.KeepsPods(o) && c.old != nil && !reflect.DeepEqual(template(c.old), template(c.info)) {
			warnings = append(warnings, plan.Warning{Rule: "R22", Object: &o, Message: fmt.Sprintf("%s: its pod template changes, but a %s does not replace its pods, "+
				"so it counts as ready with those of the old version; delete them after this run, or use a Deployment", o, o.Kind)})
		}
	}
	return warnings
}

// checkBlocked says which pods of existing StatefulSets lockstep will delete, because they were never ready and block the
// rollout once they have an older template (R32).
func (v *clusterView) checkBlocked(planned *plannedObjects) []plan.Warning {
	var sets []*incomingObject
	for _, o := range planned.objects {
		if o.Group == "apps" && o.Kind == "StatefulSet" && !o.new && !o.hook {
			sets = append(sets, o)
		}
	}
	diagnoser := diagnose.New(v.Client.Clientset, v.Client.Dynamic, v.Client.Getter)
	return checkAll(sets, func(o *incomingObject) (warnings []plan.Warning) {
		pods, err := diagnoser.BrokenPods(v.Context, o.Object)
		if err != nil { // it may not exist, and reading it is not needed
			return nil
		}
		for _, p := range pods {
			does := "lockstep deletes it after it has applied the StatefulSet (--keep-broken-pods keeps it)"
			if v.Common.KeepBrokenPods {
				does = "delete it then: " + p.Advice()
			}
			warnings = append(warnings, plan.Warning{Rule: "R32", Object: &o.Object, Message: o.String() + ": " + p.String() +
				" was never ready, and Kubernetes does not replace it once its template is out of date; in that case " + does})
		}
		return warnings
	})
}

// checkImages asks the registries for the images of the plan (S19), but not for guesses. With session.ImagesMustExist what it
// finds are conflicts.
func (v *clusterView) checkImages(planned *plannedObjects, p *session.Prepared) (out findings) {
	if !p.Common.ChecksImages() {
		return out
	}
	nodes, err := v.nodePlatforms()
	if err != nil {
		out.warnings = append(out.warnings, plan.Warning{Rule: "S19", Message: "the nodes cannot be listed, so the architectures of images are not checked: " + err.Error()})
	}
	users, needed := map[string][]*incomingObject{}, map[string][]string{}
	secrets := map[plan.Object]bool{}
	for _, o := range planned.objects {
		for _, i := range refs.Images(o.Object, o.fields) {
			if i.Guess {
				continue
			}
			users[i.Name] = append(users[i.Name], o)
			needed[i.Name] = append(needed[i.Name], selected(o, nodes)...)
		}
		v.addPullSecrets(planned, o, secrets)
	}
	for name := range needed {
		slices.Sort(needed[name])
		needed[name] = slices.Compact(needed[name])
	}
	ask := images.Registries{Keychain: images.Keychain(v.Client.RegistryConfig())}
	for _, s := range slices.SortedFunc(maps.Keys(secrets), plan.Object.Compare) {
		ask.Secrets = append(ask.Secrets, v.dockerConfig(planned, s))
	}
	problems := ask.Check(v.Context, needed)
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		list := slices.Compact(users[name]) // containers of one object are neighbours
		w := list[0].warning("%s: image %s %s", andMore(list[0], len(list)), name, problems[name])
		w.Rule = "S19"
		if p.Common.CheckImages == session.ImagesMustExist {
			out.conflicts = append(out.conflicts, w)
		} else {
			out.warnings = append(out.warnings, w)
		}
	}
	return out
}

// nodePlatforms returns the platforms of the nodes, as OS/ARCH.
func (v *clusterView) nodePlatforms() (platforms []string, err error) {
	nodes, err := v.Client.Clientset.CoreV1().Nodes().List(v.Context, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, n := range nodes.Items {
		if info := n.Status.NodeInfo; info.Architecture != "" {
			platforms = append(platforms, cmp.Or(info.OperatingSystem, "linux")+"/"+info.Architecture)
		}
	}
	slices.Sort(platforms)
	return slices.Compact(platforms), nil
}

// selected returns the platforms on which the pods of an object may run, by their node selector.
func selected(o *incomingObject, platforms []string) (out []string) {
	pods, _ := refs.FindPods(o.Object, o.fields)
	selector, _, _ := unstructured.NestedStringMap(pods.Spec, "nodeSelector")
	for _, p := range platforms {
		system, arch, _ := strings.Cut(p, "/")
		if cmp.Or(selector[corev1.LabelOSStable], system) == system && cmp.Or(selector[corev1.LabelArchStable], arch) == arch {
			out = append(out, p)
		}
	}
	return out
}

// addPullSecrets adds the image pull Secrets of an object's pods and of their service account.
func (v *clusterView) addPullSecrets(planned *plannedObjects, o *incomingObject, secrets map[plan.Object]bool) {
	if _, ok := refs.FindPods(o.Object, o.fields); !ok {
		return
	}
	account := plan.Object{Kind: "ServiceAccount", Namespace: o.Namespace, Name: "default"}
	for _, r := range refs.Find(o.Object, o.fields) {
		switch {
		case r.Use == refs.Pull:
			secrets[r.To] = true
		case r.Use == refs.Account:
			account = r.To
		}
	}
	for _, r := range refs.Find(account, v.fields(planned, account, "serviceaccounts")) {
		if r.Use == refs.Pull {
			secrets[r.To] = true
		}
	}
}

// dockerConfig returns the content of an image pull Secret, nil if it has none or may not be read.
func (v *clusterView) dockerConfig(planned *plannedObjects, secret plan.Object) []byte {
	var stored corev1.Secret
	sent := manifest.AsStored(&unstructured.Unstructured{Object: v.fields(planned, secret, "secrets")})
	if runtime.DefaultUnstructuredConverter.FromUnstructured(sent.Object, &stored) != nil {
		return nil
	}
	return stored.Data[corev1.DockerConfigJsonKey]
}

// fields returns an object of the core group as the plan has it, or else the cluster; none if it may not be read.
func (v *clusterView) fields(planned *plannedObjects, o plan.Object, resource string) map[string]any {
	if known := planned.byObject[o]; known != nil && known.fields != nil {
		return known.fields
	}
	live, err := v.Client.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(o.Namespace).Get(v.Context, o.Name, metav1.GetOptions{})
	if err != nil {
		return map[string]any{}
	}
	return live.Object
}
