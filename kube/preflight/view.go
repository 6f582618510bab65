package preflight

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"lockstep/engine/plan"
)

// clusterView reads the cluster for the checks. It skips kinds that the user may not read, and
// collects them for one warning.
type clusterView struct {
	*Session
	mapper       meta.RESTMapper
	newNamespace string // a namespace that does not exist yet

	mu         sync.Mutex
	unreadable []string
}

// recordFailure reports whether a read request failed. If so, it adds what could not be read,
// in a namespace or "", to the warning.
func (v *clusterView) recordFailure(err error, what, namespace string) (failed bool) {
	if err == nil {
		return false
	}
	if namespace != "" {
		what += " in namespace " + namespace
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.Context.Err() == nil && !slices.Contains(v.unreadable, what) {
		v.unreadable = append(v.unreadable, what)
	}
	return true
}

// unchecked returns a warning about all failed reads, nil if there were none.
func (v *clusterView) unchecked() (warnings []plan.Warning) {
	if len(v.unreadable) == 0 {
		return nil
	}
	slices.Sort(v.unreadable)
	return []plan.Warning{{Message: "not checked, because reading failed or is not permitted: " + strings.Join(v.unreadable, ", ")}}
}

// maxRequests is how many calls each makes at a time.
const maxRequests = 16

// each calls do(0) to do(n-1) in parallel.
func each(n int, do func(i int)) {
	var calls errgroup.Group
	calls.SetLimit(maxRequests)
	for i := range n {
		calls.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = calls.Wait()
}

// findAll checks all items in parallel, and returns the findings in the order of items.
func findAll[T any](items []T, check func(T) []plan.Warning) []plan.Warning {
	found := make([][]plan.Warning, len(items))
	each(len(items), func(i int) { found[i] = check(items[i]) })
	return slices.Concat(found...)
}

// listThreshold is the number of names from which one list request replaces a get for each.
const listThreshold = 4

// kindInNamespace is a kind in a namespace, which is "" for cluster scope.
type kindInNamespace struct {
	plan.GroupKind
	namespace string
}

func kindOf(o plan.Object) kindInNamespace {
	return kindInNamespace{plan.GroupKind{Group: o.Group, Kind: o.Kind}, o.Namespace}
}

// existing returns which names of a kind exist. known is false if the request fails or the kind is
// unknown.
func (v *clusterView) existing(kind kindInNamespace, names []string) (exists map[string]bool, known bool) {
	if kind.namespace != "" && kind.namespace == v.newNamespace {
		return nil, true
	}
	mapping, err := v.mapper.RESTMapping(schema.GroupKind{Group: kind.Group, Kind: kind.Kind})
	if err != nil {
		return nil, false // the kind may be defined later; CheckKinds reports it
	}
	client := v.Client.Metadata.Resource(mapping.Resource).Namespace(kind.namespace)
	if len(names) >= listThreshold {
		exists, err = v.list(client)
	}
	if len(names) < listThreshold || apierrors.IsForbidden(err) { // a Role may grant get by name
		exists, err = v.get(client, names)
	}
	return exists, !v.recordFailure(err, mapping.Resource.GroupResource().String(), kind.namespace)
}

func (v *clusterView) list(client metadata.ResourceInterface) (exists map[string]bool, err error) {
	exists = map[string]bool{}
	for opts := (metav1.ListOptions{Limit: 1000}); ; {
		l, err := client.List(v.Context, opts)
		if err != nil {
			return nil, err
		}
		for _, o := range l.Items {
			exists[o.Name] = true
		}
		if opts.Continue = l.Continue; opts.Continue == "" {
			return exists, nil
		}
	}
}

// get returns which of the names exist. It stops at the first one that cannot be read.
func (v *clusterView) get(client metadata.ResourceInterface, names []string) (exists map[string]bool, err error) {
	exists = map[string]bool{}
	for _, n := range names {
		_, err := client.Get(v.Context, n, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		exists[n] = err == nil
	}
	return exists, nil
}

// namespace reads a namespace, nil if it does not exist. known is false if that failed.
func (v *clusterView) namespace(name string) (ns *corev1.Namespace, known bool) {
	if name == v.newNamespace {
		return nil, true
	}
	ns, err := v.Client.Clientset.CoreV1().Namespaces().Get(v.Context, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, true
	}
	if v.recordFailure(err, fmt.Sprintf("namespace %s", name), "") {
		return nil, false
	}
	return ns, true
}
