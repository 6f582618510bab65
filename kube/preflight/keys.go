package preflight

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// wantedKeys are the references to entries of ConfigMaps and Secrets that keep pods
// from starting where they are missing. What somebody else may write is left out.
func (t *target) wantedKeys() (out []need) {
	for _, o := range t.objects {
		pods, has := refs.PodsOf(o.Object, o.fields)
		if !has || pods.None {
			continue
		}
		for _, r := range refs.Of(o.Object, o.fields) {
			if len(r.Keys) > 0 && !r.Optional && !t.mayBring(r.To) {
				out = append(out, need{o, r})
			}
		}
	}
	return out
}

// checkKeys finds entries that pods need of ConfigMaps and Secrets which are there,
// in the plan or in the cluster, without them. Those that are not there at all are
// told of by checkReferences.
func (s *sight) checkKeys(t *target) (warnings []plan.Warning) {
	needs := t.wantedKeys()
	var inCluster []plan.Object
	for _, n := range needs {
		if t.has[n.To] == nil && n.To.Namespace != s.empty && !slices.Contains(inCluster, n.To) {
			inCluster = append(inCluster, n.To)
		}
	}
	live := map[plan.Object][]string{}
	for _, o := range inCluster[:min(len(inCluster), mostRead)] {
		if keys, known := s.keysOf(o); known {
			live[o] = keys
		}
	}
	return t.tellKeys(needs, live)
}

// mostRead is how many ConfigMaps and Secrets are read for their entries: one by one,
// since a list of all would bring all that is in them.
const mostRead = 20

// keysOf are the entries of a ConfigMap or Secret of the cluster, where it is there.
func (s *sight) keysOf(o plan.Object) (keys []string, known bool) {
	core := s.Client.Clientset.CoreV1()
	if o.Kind == "Secret" {
		secret, err := core.Secrets(o.Namespace).Get(s.Context, o.Name, metav1.GetOptions{})
		if err != nil {
			return nil, false // that is told with the others that are not there, or not to be seen
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

// tellKeys says which entries are missing. Of what is changed in the cluster somebody
// else may have others.
func (t *target) tellKeys(needs []need, live map[plan.Object][]string) (warnings []plan.Warning) {
	for _, n := range needs {
		keys, known := live[n.To]
		if to := t.has[n.To]; to != nil && to.new {
			keys, known = to.keys(), true
		}
		missing := slices.DeleteFunc(slices.Clone(n.Keys), func(k string) bool { return slices.Contains(keys, k) })
		if !known || len(missing) == 0 {
			continue
		}
		warnings = append(warnings, n.warn("%s needs %s of %s (%s), which does not have it: %s", n.from, listed(missing), n.To, n.Path, without[n.Use]))
	}
	return warnings
}

func listed(keys []string) string {
	if len(keys) == 1 {
		return "key " + keys[0]
	}
	return fmt.Sprintf("keys %s", strings.Join(keys, ", "))
}

// keys are the entries of a ConfigMap or Secret that is brought.
func (o *brought) keys() (keys []string) {
	for _, field := range []string{"data", "stringData", "binaryData"} {
		m, _ := o.fields[field].(map[string]any)
		for k := range m {
			keys = append(keys, k)
		}
	}
	return keys
}
