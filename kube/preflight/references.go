package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/infer"
	"lockstep/engine/plan"
	"lockstep/engine/refs"
	"lockstep/kube/manifest"
)

// blocking are the uses that keep pods from starting.
var blocking = []refs.Use{refs.Environment, refs.Volume, refs.Claim, refs.Account, refs.Priority, refs.Runtime}

// reference is a reference from an object of the plan.
type reference struct {
	from *incomingObject
	refs.Ref
}

// checkReferences warns about objects that the plan refers to and that are in neither the plan
// nor the cluster, or are created too late.
//
// If groupsReady is set, a group starts only when the groups before it are ready.
func (v *clusterView) checkReferences(planned *plannedObjects, groupsReady bool) (warnings []plan.Warning) {
	missing, late := planned.references(groupsReady)
	return planned.referenceWarnings(missing, late, v.absent(slices.Concat(missing, late)))
}

// references returns the references to look up in the cluster: to objects that are missing in the
// plan, and to objects that the plan creates too late.
func (planned *plannedObjects) references(groupsReady bool) (missing, late []reference) {
	var workloads []infer.Object
	for _, o := range planned.objects {
		pods, hasTemplate := refs.FindPods(o.Object, o.fields)
		if hasTemplate {
			workloads = append(workloads, infer.Object{Resource: plan.Resource{Object: o.Object}, Fields: o.fields})
		}
		idle := hasTemplate && pods.None
		for _, ref := range refs.Find(o.Object, o.fields) {
			r := reference{o, ref}
			if idle || ref.IfMissing() == "" || planned.waitsFor(o.position, ref.To) {
				continue
			}
			switch target := planned.byObject[ref.To]; {
			case target == nil && !planned.mayCreate(ref.To) && !requestsCertificate(r):
				missing = append(missing, r)
			case target != nil && hasTemplate && slices.Contains(blocking, ref.Use) &&
				planned.before(o.position, target.position) && blocksLaterGroups(o, groupsReady):
				late = append(late, r)
			}
		}
	}
	for _, e := range infer.Waits(workloads) {
		from, to := planned.byObject[e.From], planned.byObject[e.To]
		if planned.before(from.position, to.position) && blocksLaterGroups(from, groupsReady) {
			late = append(late, reference{from, refs.Ref{To: e.To, Path: e.Reason.Path, Use: refs.Environment}})
		}
	}
	return missing, late
}

// referenceWarnings returns warnings about the references to absent objects.
func (planned *plannedObjects) referenceWarnings(missing, late []reference, absent map[plan.Object]bool) (warnings []plan.Warning) {
	for _, found := range groupByTarget(missing, absent) {
		r := found[0]
		warnings = append(warnings, r.from.warning("%s %s (%s), which is in neither the chart nor %s: %s",
			subject(found), r.To, r.Path, manifest.PlaceOf(r.To, "the cluster"), r.IfMissing()))
	}
	for _, found := range groupByTarget(late, absent) {
		r := found[0]
		target := planned.byObject[r.To]
		warnings = append(warnings, r.from.warning("%s %s (%s), which is created after it (%s): %s; %s",
			subject(found), r.To, r.Path, target.position.group.ID, r.IfMissing(), r.from.howToPrecede(target)))
	}
	return warnings
}

// howToPrecede says what to change in the chart so that an object is created before the pods of o, which need it.
func (o *incomingObject) howToPrecede(needed *incomingObject) string {
	switch {
	case o.hook && needed.hook && o.position.phase == needed.position.phase:
		return "give it a lower helm.sh/hook-weight"
	case o.hook:
		return fmt.Sprintf("make it a hook of the same event as %s, with a lower helm.sh/hook-weight", o)
	case needed.hook:
		return "make it a hook before the objects, such as pre-install, remove its annotation helm.sh/hook, or deploy in Helm's order with --wait=hookOnly"
	}
	return "put it into the same group or an earlier one"
}

// subject returns the subject and verb of a warning: "Deployment/web needs" or
// "Deployment/web and 2 more need".
func subject(all []reference) string {
	from := map[plan.Object]bool{}
	for _, r := range all {
		from[r.from.Object] = true
	}
	if len(from) == 1 {
		return all[0].from.String() + " needs"
	}
	return andMore(all[0].from, len(from)) + " need"
}

// groupByTarget groups the references to absent objects by the absent object, and sorts the groups by
// the first object that refers to it.
func groupByTarget(all []reference, absent map[plan.Object]bool) [][]reference {
	byTarget := map[plan.Object][]reference{}
	for _, r := range all {
		if absent[r.To] {
			byTarget[r.To] = append(byTarget[r.To], r)
		}
	}
	out := slices.Collect(maps.Values(byTarget))
	slices.SortFunc(out, func(a, b []reference) int {
		return cmp.Or(a[0].from.Compare(b[0].from.Object), a[0].To.Compare(b[0].To))
	})
	return out
}

// absent looks up the referenced objects by kind and namespace, and returns those that certainly
// do not exist.
func (v *clusterView) absent(references []reference) map[plan.Object]bool {
	names := map[kindInNamespace][]string{}
	for _, r := range references {
		kind := kindOf(r.To)
		if !slices.Contains(names[kind], r.To.Name) {
			names[kind] = append(names[kind], r.To.Name)
		}
	}
	kinds := slices.Collect(maps.Keys(names))
	var mu sync.Mutex
	out := map[plan.Object]bool{}
	concurrently(len(kinds), func(i int) {
		kind := kinds[i]
		exists, known := v.existing(kind, names[kind])
		mu.Lock()
		defer mu.Unlock()
		for _, name := range names[kind] {
			if known && !exists[name] {
				out[plan.Object{Group: kind.Group, Kind: kind.Kind, Namespace: kind.namespace, Name: name}] = true
			}
		}
	})
	return out
}

// requestsCertificate reports whether an annotation of an Ingress requests a certificate.
func requestsCertificate(r reference) bool {
	if r.Use != refs.TLS {
		return false
	}
	metadata, _ := r.from.fields["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for key := range annotations {
		for _, word := range []string{"cert-manager.io/", "certmanager.k8s.io/", "acme"} {
			if strings.Contains(key, word) {
				return true
			}
		}
	}
	return false
}

// blocksLaterGroups reports whether later groups wait for the pods of an object.
func blocksLaterGroups(o *incomingObject, groupsReady bool) bool {
	switch o.Kind {
	case "Job":
		return o.hook || groupsReady && o.position.group.JobsComplete
	case "CronJob", "PodTemplate":
		return false
	case "Pod":
		return o.hook || groupsReady
	}
	return !o.hook && groupsReady
}

// requiredKeys returns the references to keys of ConfigMaps and Secrets that pods need to start,
// without ConfigMaps and Secrets that an object of the plan may write.
func (planned *plannedObjects) requiredKeys() (out []reference) {
	for _, o := range planned.objects {
		pods, hasTemplate := refs.FindPods(o.Object, o.fields)
		if !hasTemplate || pods.None {
			continue
		}
		for _, ref := range refs.Find(o.Object, o.fields) {
			if len(ref.Keys) > 0 && ref.IfMissing() != "" && !planned.mayCreate(ref.To) {
				out = append(out, reference{o, ref})
			}
		}
	}
	return out
}

// checkKeys warns about missing keys in existing or planned ConfigMaps and Secrets that pods
// need to start. checkReferences warns about missing objects.
func (v *clusterView) checkKeys(planned *plannedObjects) (warnings []plan.Warning) {
	required := planned.requiredKeys()
	var inCluster []plan.Object
	for _, r := range required {
		if planned.byObject[r.To] == nil && r.To.Namespace != v.newNamespace && !slices.Contains(inCluster, r.To) {
			inCluster = append(inCluster, r.To)
		}
	}
	live := map[plan.Object][]string{}
	for _, o := range inCluster[:min(len(inCluster), maxKeyReads)] {
		if keys, known := v.keysOf(o); known {
			live[o] = keys
		}
	}
	return planned.keyWarnings(required, live)
}

// maxKeyReads limits how many ConfigMaps and Secrets are read for their keys. They are read one by
// one, because a list would transfer the data of all others in the namespace.
const maxKeyReads = 20

// keysOf returns the keys of a ConfigMap or Secret in the cluster. known is false if the request fails.
func (v *clusterView) keysOf(o plan.Object) (keys []string, known bool) {
	core := v.Client.Clientset.CoreV1()
	if o.Kind == "Secret" {
		secret, err := core.Secrets(o.Namespace).Get(v.Context, o.Name, metav1.GetOptions{})
		if err != nil {
			return nil, false // checkReferences reports it
		}
		return slices.Collect(maps.Keys(secret.Data)), true
	}
	config, err := core.ConfigMaps(o.Namespace).Get(v.Context, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, false
	}
	return slices.AppendSeq(slices.Collect(maps.Keys(config.Data)), maps.Keys(config.BinaryData)), true
}

// keyWarnings returns warnings about missing keys. The manifest counts only for a new object: a live
// one may have more keys.
func (planned *plannedObjects) keyWarnings(required []reference, live map[plan.Object][]string) (warnings []plan.Warning) {
	for _, r := range required {
		keys, known := live[r.To]
		if target := planned.byObject[r.To]; target != nil && target.new {
			keys, known = target.keys(), true
		}
		missing := slices.DeleteFunc(slices.Clone(r.Keys), func(k string) bool { return slices.Contains(keys, k) })
		if !known || len(missing) == 0 {
			continue
		}
		named := "key " + missing[0]
		it := "it"
		if len(missing) > 1 {
			named = "keys " + strings.Join(missing, ", ")
			it = "them"
		}
		warnings = append(warnings, r.from.warning("%s needs %s in %s (%s), but the %s does not have %s: pods cannot start without %s",
			r.from, named, r.To, r.Path, r.To.Kind, it, it))
	}
	return warnings
}

// keys returns the keys of a ConfigMap or Secret in the plan.
func (o *incomingObject) keys() (keys []string) {
	for _, field := range []string{"data", "stringData", "binaryData"} {
		m, _ := o.fields[field].(map[string]any)
		keys = slices.AppendSeq(keys, maps.Keys(m))
	}
	return keys
}

// checkOwners refuses objects whose ownerReferences name only objects that do not exist: the cluster would delete them at once. Such
// references come from copied objects, or from a lookup of an earlier object.
func (v *clusterView) checkOwners(planned *plannedObjects) (conflicts []plan.Warning) {
	return checkAll(planned.objects, func(o *incomingObject) []plan.Warning {
		owners := (&unstructured.Unstructured{Object: o.fields}).GetOwnerReferences()
		if len(owners) == 0 || slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool { return v.mayExist(r, o.Object.Namespace) }) {
			return nil
		}
		first := owners[0]
		return []plan.Warning{o.warning("%s: its owner, %s/%s with the uid %s, does not exist, so the cluster would delete it at once: remove metadata.ownerReferences, or correct the uid",
			o, first.Kind, first.Name, first.UID)}
	})
}

// mayExist reports whether the owner of an object in a namespace exists, or cannot be read.
func (v *clusterView) mayExist(r metav1.OwnerReference, namespace string) bool {
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	if err != nil {
		return true
	}
	mapping, err := v.mapper.RESTMapping(schema.GroupKind{Group: gv.Group, Kind: r.Kind}, gv.Version)
	if err != nil {
		return true
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		namespace = ""
	}
	owner, err := v.Client.Metadata.Resource(mapping.Resource).Namespace(namespace).Get(v.Context, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false
	}
	return v.recordFailure(err, mapping.Resource.GroupResource().String(), namespace) || owner.UID == r.UID
}
