package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// consequences of missing references by use. Other uses are harmless.
var consequences = map[refs.Use]string{
	refs.Environment: "pods cannot start without it",
	refs.Volume:      "pods cannot start without it",
	refs.Claim:       "pods stay pending without it",
	refs.Account:     "no pods can be created without it",
	refs.Priority:    "no pods can be created without it",
	refs.Runtime:     "no pods can be created without it",
	refs.Pull:        "images that need it cannot be pulled",
	refs.Class:       "no controller will serve it",
	refs.Backend:     "requests to it fail",
	refs.TLS:         "another certificate is used until then",
	refs.Target:      "it cannot scale anything",
	refs.Role:        "it grants no permissions until then",
}

// blocking are the uses that keep pods from starting.
var blocking = []refs.Use{refs.Environment, refs.Volume, refs.Claim, refs.Account, refs.Priority, refs.Runtime}

// need is a reference from an object of the plan.
type need struct {
	from *incomingObject
	refs.Ref
}

// kindIn is a kind in a namespace.
type kindIn struct {
	kind      plan.GroupKind
	namespace string
}

func kindInOf(o plan.Object) kindIn {
	return kindIn{plan.GroupKind{Group: o.Group, Kind: o.Kind}, o.Namespace}
}

// checkReferences warns about objects that the plan refers to and that are in neither the plan
// nor the cluster, or are created too late.
func (s *clusterView) checkReferences(t *target, waits waiting) (warnings []plan.Warning) {
	missing, late := t.needs(waits)
	names := map[kindIn]map[string]bool{}
	for _, n := range slices.Concat(missing, late) {
		if names[kindInOf(n.To)] == nil {
			names[kindInOf(n.To)] = map[string]bool{}
		}
		names[kindInOf(n.To)][n.To.Name] = true
	}
	return t.referenceWarnings(missing, late, s.absent(names))
}

// waiting is set for what the run waits for before the next group: ready groups, complete Jobs.
type waiting struct{ groups, jobs bool }

// needs returns the references to look up in the cluster: to objects that are missing in the
// plan, and to objects that the plan creates too late.
func (t *target) needs(waits waiting) (missing, late []need) {
	for _, o := range t.objects {
		pods, has := refs.FindPods(o.Object, o.fields)
		idle := has && pods.None
		for _, r := range refs.Find(o.Object, o.fields) {
			n := need{o, r}
			if r.Optional || idle || consequences[r.Use] == "" || builtIn(r.To) {
				continue
			}
			switch to := t.has[r.To]; {
			case to == nil && !t.mayCreate(r.To) && !issued(n):
				missing = append(missing, n)
			case to != nil && slices.Contains(blocking, r.Use) && has && t.earlier(o.at, to.at) && holdsUp(n, waits):
				late = append(late, n)
			}
		}
	}
	return missing, late
}

// referenceWarnings returns warnings about the needs whose objects are absent.
func (t *target) referenceWarnings(missing, late []need, absent map[plan.Object]bool) (warnings []plan.Warning) {
	for _, found := range group(missing, absent) {
		n := found[0]
		warnings = append(warnings, n.warn("%s %s (%s), which neither the chart nor %s has: %s", subject(found), n.To, n.Path, has(n.To), consequences[n.Use]))
	}
	for _, found := range group(late, absent) {
		n := found[0]
		warnings = append(warnings, n.warn("%s %s (%s), which is created after it (%s): %s", subject(found), n.To, n.Path, t.has[n.To].at.group.ID, consequences[n.Use]))
	}
	return warnings
}

func (n need) warn(format string, args ...any) plan.Warning {
	o := n.from.Object
	return plan.Warning{Object: &o, Message: fmt.Sprintf(format, args...)}
}

// subject returns the subject and verb of a warning: "Deployment/web needs" or
// "Deployment/web and 2 more need".
func subject(needs []need) string {
	from := map[plan.Object]bool{}
	for _, n := range needs {
		from[n.from.Object] = true
	}
	if len(from) == 1 {
		return needs[0].from.String() + " needs"
	}
	return fmt.Sprintf("%s and %d more need", needs[0].from, len(from)-1)
}

// has returns the namespace that would contain an object, or "the cluster".
func has(o plan.Object) string {
	if o.Namespace == "" {
		return "the cluster"
	}
	return "namespace " + o.Namespace
}

// group groups the needs of absent objects by object, sorted by the first referring object.
func group(needs []need, absent map[plan.Object]bool) [][]need {
	by := map[plan.Object][]need{}
	for _, n := range needs {
		if absent[n.To] {
			by[n.To] = append(by[n.To], n)
		}
	}
	out := slices.Collect(maps.Values(by))
	slices.SortFunc(out, func(a, b []need) int {
		return cmp.Or(a[0].from.Compare(b[0].from.Object), a[0].To.Compare(b[0].To))
	})
	return out
}

// absent looks up names by kind and namespace, and returns the objects that certainly do not
// exist.
func (s *clusterView) absent(wanted map[kindIn]map[string]bool) map[plan.Object]bool {
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[plan.Object]bool{}
	for p, names := range wanted {
		wg.Go(func() {
			exists, known := s.existing(p.kind, p.namespace, slices.Sorted(maps.Keys(names)))
			mu.Lock()
			defer mu.Unlock()
			for n := range names {
				if known && !exists[n] {
					out[plan.Object{Group: p.kind.Group, Kind: p.kind.Kind, Namespace: p.namespace, Name: n}] = true
				}
			}
		})
	}
	wg.Wait()
	return out
}

// builtIn reports whether Kubernetes itself creates the object.
func builtIn(o plan.Object) bool {
	switch o.Kind {
	case "ServiceAccount":
		return o.Name == "default"
	case "ConfigMap":
		return o.Name == "kube-root-ca.crt" || o.Name == "openshift-service-ca.crt"
	case "PriorityClass":
		return strings.HasPrefix(o.Name, "system-")
	}
	return false
}

// issued reports whether an annotation of an Ingress requests a certificate.
func issued(n need) bool {
	if n.Use != refs.TLS {
		return false
	}
	metadata, _ := n.from.fields["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for key := range annotations {
		if strings.Contains(key, "cert-manager.io/") || strings.Contains(key, "certmanager.k8s.io/") || key == "kubernetes.io/tls-acme" || strings.Contains(key, "acme") {
			return true
		}
	}
	return false
}

// holdsUp reports whether later groups wait for the pods of an object.
func holdsUp(n need, waits waiting) bool {
	switch n.from.Kind {
	case "Job":
		return n.from.hook || waits.groups && (waits.jobs || n.from.at.group.JobsComplete)
	case "CronJob", "PodTemplate":
		return false
	case "Pod":
		return n.from.hook || waits.groups
	}
	return !n.from.hook && waits.groups
}

// requiredKeys returns the references to keys of ConfigMaps and Secrets that pods need to
// start, except to objects that others may create.
func (t *target) requiredKeys() (out []need) {
	for _, o := range t.objects {
		pods, has := refs.FindPods(o.Object, o.fields)
		if !has || pods.None {
			continue
		}
		for _, r := range refs.Find(o.Object, o.fields) {
			if len(r.Keys) > 0 && !r.Optional && !t.mayCreate(r.To) {
				out = append(out, need{o, r})
			}
		}
	}
	return out
}

// checkKeys warns about missing keys in existing or planned ConfigMaps and Secrets that pods
// need to start. checkReferences warns about missing objects.
func (s *clusterView) checkKeys(t *target) (warnings []plan.Warning) {
	needs := t.requiredKeys()
	var inCluster []plan.Object
	for _, n := range needs {
		if t.has[n.To] == nil && n.To.Namespace != s.empty && !slices.Contains(inCluster, n.To) {
			inCluster = append(inCluster, n.To)
		}
	}
	live := map[plan.Object][]string{}
	for _, o := range inCluster[:min(len(inCluster), maxKeyReads)] {
		if keys, known := s.keysOf(o); known {
			live[o] = keys
		}
	}
	return t.keyWarnings(needs, live)
}

// maxKeyReads limits the number of ConfigMaps and Secrets that are read for their keys. They
// are read one by one, because a list would transfer all their data.
const maxKeyReads = 20

// keysOf returns the keys of a ConfigMap or Secret in the cluster, if it exists.
func (s *clusterView) keysOf(o plan.Object) (keys []string, known bool) {
	core := s.Client.Clientset.CoreV1()
	if o.Kind == "Secret" {
		secret, err := core.Secrets(o.Namespace).Get(s.Context, o.Name, metav1.GetOptions{})
		if err != nil {
			return nil, false // checkReferences reports it
		}
		for k := range secret.Data {
			keys = append(keys, k)
		}
		return keys, true
	}
	config, err := core.ConfigMaps(o.Namespace).Get(s.Context, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, false
	}
	for k := range config.Data {
		keys = append(keys, k)
	}
	for k := range config.BinaryData {
		keys = append(keys, k)
	}
	return keys, true
}

// keyWarnings returns warnings about missing keys. Only the manifest of a new object counts;
// a live one may have more keys.
func (t *target) keyWarnings(needs []need, live map[plan.Object][]string) (warnings []plan.Warning) {
	for _, n := range needs {
		keys, known := live[n.To]
		if to := t.has[n.To]; to != nil && to.new {
			keys, known = to.keys(), true
		}
		missing := slices.DeleteFunc(slices.Clone(n.Keys), func(k string) bool { return slices.Contains(keys, k) })
		if !known || len(missing) == 0 {
			continue
		}
		warnings = append(warnings, n.warn("%s needs %s of %s (%s), which is missing there: %s", n.from, listed(missing), n.To, n.Path, consequences[n.Use]))
	}
	return warnings
}

func listed(keys []string) string {
	if len(keys) == 1 {
		return "key " + keys[0]
	}
	return fmt.Sprintf("keys %s", strings.Join(keys, ", "))
}

// keys returns the keys of a ConfigMap or Secret in the plan.
func (o *incomingObject) keys() (keys []string) {
	for _, field := range []string{"data", "stringData", "binaryData"} {
		m, _ := o.fields[field].(map[string]any)
		for k := range m {
			keys = append(keys, k)
		}
	}
	return keys
}
