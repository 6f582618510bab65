package preflight

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"lockstep/engine/plan"
)

// clusterView reads the cluster for the checks. Kinds the user may not read are skipped
// and named in one line.
type clusterView struct {
	*Session
	mapper meta.RESTMapper
	// empty is the namespace if it does not exist yet.
	empty string

	mu     sync.Mutex
	unseen []string
}

// seen reports whether a request was answered, and records what could not be read, in a
// namespace or "".
func (s *clusterView) seen(err error, what, namespace string) bool {
	if err == nil {
		return true
	}
	if namespace != "" {
		what += " in namespace " + namespace
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Context.Err() == nil && !slices.Contains(s.unseen, what) {
		s.unseen = append(s.unseen, what)
	}
	return false
}

// unchecked names what could not be read, if anything.
func (s *clusterView) unchecked() (warnings []plan.Warning) {
	if len(s.unseen) == 0 {
		return nil
	}
	slices.Sort(s.unseen)
	return []plan.Warning{{Message: "not checked, because this user may not read it or it does not answer: " + strings.Join(s.unseen, ", ")}}
}

// worthListing is the number of names from which one list is sent instead of a get for
// each.
const worthListing = 4

// which returns the names of a kind that exist in a namespace or in cluster scope; known is
// false if the cluster does not say.
func (s *clusterView) which(kind plan.GroupKind, namespace string, names []string) (there map[string]bool, known bool) {
	there = map[string]bool{}
	if namespace != "" && namespace == s.empty {
		return there, true
	}
	mapping, err := s.mapper.RESTMapping(schema.GroupKind{Group: kind.Group, Kind: kind.Kind})
	if err != nil {
		return nil, false // a kind that is still to come, or its own fault
	}
	client, err := s.Client.Metadata.Resource(mapping.Resource).Namespace(namespace), error(nil)
	if len(names) >= worthListing {
		there, err = s.list(client)
	}
	if len(names) < worthListing || apierrors.IsForbidden(err) { // those of these names may be allowed
		there, err = s.get(client, names)
	}
	return there, s.seen(err, mapping.Resource.GroupResource().String(), namespace)
}

// list returns the existing objects.
func (s *clusterView) list(client metadata.ResourceInterface) (there map[string]bool, err error) {
	there = map[string]bool{}
	for opts := (metav1.ListOptions{Limit: 1000}); ; {
		l, err := client.List(s.Context, opts)
		if err != nil {
			return nil, err
		}
		for _, o := range l.Items {
			there[o.Name] = true
		}
		if opts.Continue = l.Continue; opts.Continue == "" {
			return there, nil
		}
	}
}

// get returns the named objects that exist. It stops at the first that may not be read.
func (s *clusterView) get(client metadata.ResourceInterface, names []string) (there map[string]bool, err error) {
	there = map[string]bool{}
	for _, n := range names {
		_, err := client.Get(s.Context, n, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		there[n] = err == nil
	}
	return there, nil
}

// namespace returns a namespace of the cluster, nil if there is none.
func (s *clusterView) namespace(name string) (ns *corev1.Namespace, known bool) {
	if name == s.empty {
		return nil, true
	}
	ns, err := s.Client.Clientset.CoreV1().Namespaces().Get(s.Context, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, true
	}
	if !s.seen(err, fmt.Sprintf("namespace %s", name), "") {
		return nil, false
	}
	return ns, true
}
