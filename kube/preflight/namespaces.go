package preflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/lease"
	"lockstep/kube/permissions"
	"lockstep/kube/session"
	"lockstep/kube/status"
)

// namespaces reads the namespaces of the release and its objects. The value for a missing namespace
// is nil; namespaces that cannot be read are omitted.
func (v *clusterView) namespaces(planned *plannedObjects) map[string]*corev1.Namespace {
	names := []string{v.Common.Namespace}
	for _, o := range planned.objects {
		if o.Namespace != "" && !slices.Contains(names, o.Namespace) {
			names = append(names, o.Namespace)
		}
	}
	var mu sync.Mutex
	out := map[string]*corev1.Namespace{}
	concurrently(len(names), func(i int) {
		if ns, known := v.namespace(names[i]); known {
			mu.Lock()
			defer mu.Unlock()
			out[names[i]] = ns
		}
	})
	return out
}

// checkNamespaces checks for terminating namespaces, and for missing ones that nothing creates. A terminating
// namespace is a conflict only if it is the release's.
func checkNamespaces(planned *plannedObjects, namespaces map[string]*corev1.Namespace, common session.Common) (out findings) {
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		switch ns := namespaces[name]; {
		case ns == nil:
			out.add(planned.checkMissingNamespace(name))
		case ns.DeletionTimestamp == nil:
		case name == common.Namespace:
			out.conflicts = append(out.conflicts, terminatingWarning(ns, common))
		default:
			out.warnings = append(out.warnings, terminatingWarning(ns, common))
		}
	}
	return out
}

func terminatingWarning(ns *corev1.Namespace, common session.Common) plan.Warning {
	shortcut := ""
	switch {
	case ns.Name != common.Namespace:
	case common.Provided != nil:
		shortcut = " (" + createInHelmfile + " does both)"
	default:
		shortcut = " (install --create-namespace does both)"
	}
	return plan.Warning{
		Object: &plan.Object{Kind: "Namespace", Name: ns.Name},
		Message: fmt.Sprintf("namespace %s has been terminating since %s and accepts no new objects%s; "+
			"wait until it is deleted, then create it again%s",
			ns.Name, ns.DeletionTimestamp.UTC().Format("2006-01-02 15:04:05 UTC"), whyTerminating(ns), shortcut),
	}
}

// Terminating returns the first of the namespaces that is being deleted, "" for none, with an error that says so. One that the user
// may not read counts as existing.
func Terminating(ctx context.Context, c *connect.Client, names []string) (name string, err error) {
	for _, name := range names {
		if text := DeletionOf(ctx, c, name); text != "" {
			return name, errors.New(text + "; once it is gone, run the command again")
		}
	}
	return "", nil
}

// DeletionOf says that a namespace is being deleted and why it still exists, "" if it is not or if the user may not read it.
func DeletionOf(ctx context.Context, c *connect.Client, name string) string {
	ns, err := c.Clientset.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil || ns.DeletionTimestamp == nil {
		return ""
	}
	return fmt.Sprintf("somebody deletes namespace %s, with all that is in it (since %s)%s", name, ns.DeletionTimestamp.UTC().Format("15:04:05 UTC"), whyTerminating(ns))
}

// checkMissingNamespace checks whether the plan creates a namespace before the objects in it. It returns
// at most one warning or conflict.
func (planned *plannedObjects) checkMissingNamespace(name string) (out findings) {
	ns := planned.byObject[plan.Object{Kind: "Namespace", Name: name}]
	for _, o := range planned.objects {
		switch {
		case o.Namespace != name || ns != nil && !planned.before(o.position, ns.position):
		case ns != nil:
			return findings{warnings: []plan.Warning{o.warning("%s is in namespace %s, which is created after it (%s)",
				o, name, ns.position.group.ID)}}
		case planned.operatorBefore(o):
			out.warnings = []plan.Warning{o.warning("%s is in namespace %s, which does not exist and is not in the chart, "+
				"so an earlier group must create it", o, name)}
		default:
			return findings{conflicts: []plan.Warning{o.warning("%s is in namespace %s, which does not exist: "+
				"create the namespace, or add it to the chart", o, name)}}
		}
	}
	return out
}

// WaitForNamespace reports whether the namespace of the release must be created. If create is set
// (--create-namespace), it first waits until a terminating namespace is deleted or the session ends;
// otherwise a missing namespace is an error. A namespace that the user may neither read nor create counts
// as existing, and so does a missing one that another release of a helmfile creates.
func WaitForNamespace(s *session.Session, create bool) (mustCreate bool, err error) {
	name := s.Common.Namespace
	provided := s.Common.Provided.Has(plan.Object{Kind: "Namespace", Name: name})
	step := "" // the last reported step, "" before the first wait
	fix := ""  // what to do if the namespace stays terminating
	for {
		ns, readErr := s.Client.Clientset.CoreV1().Namespaces().Get(s.Context, name, metav1.GetOptions{})
		missing := apierrors.IsNotFound(readErr)
		switch {
		case s.Context.Err() != nil && step != "":
			return false, fmt.Errorf("%w while %s; %s, or raise --timeout", context.Cause(s.Context), step, fix)
		case missing && provided:
			return false, nil
		case missing && !create:
			return false, missingNamespaceError(s.Common)
		case readErr != nil && !missing && !apierrors.IsForbidden(readErr):
			return false, fmt.Errorf("read namespace %s: %w", name, readErr)
		case create && apierrors.IsForbidden(readErr) && !provided:
			return false, checkUnreadableNamespace(s)
		}
		terminating := readErr == nil && ns.DeletionTimestamp != nil
		if !terminating || !create || s.Common.PlanOnly {
			if step != "" && s.Lease.Status != lease.Unavailable { // the Lease was deleted with the namespace
				s.Lease = lease.State{}
			}
			return missing, nil
		}
		if text := fmt.Sprintf("waiting for namespace %s to be deleted%s", name, whyTerminating(ns)); text != step {
			step, fix = text, fixTerminating(ns)
			s.Common.ReportStep(text)
		}
		select {
		case <-s.Context.Done():
		case <-time.After(time.Second):
		}
	}
}

// checkUnreadableNamespace returns an error if the namespace of the release is known to be missing, although
// the user may not read it: a dry run could create it. If the user may not create it either, it sets
// namespaceUnknown.
func checkUnreadableNamespace(s *session.Session) error {
	name := s.Common.Namespace
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := s.Client.Clientset.CoreV1().Namespaces().Create(s.Context, ns, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	s.NamespaceUnknown = apierrors.IsForbidden(err)
	if err != nil {
		return nil
	}
	get := permissions.Permission{Verb: "get", Resource: createNamespacePermission.Resource, Why: "to create it"}
	return cannotCreateNamespace(s.Context, s.Client, name, get)
}

var createNamespacePermission = permissions.Permission{Verb: "create", Resource: schema.GroupResource{Resource: "namespaces"}}

// ExplainMissingNamespace replaces the API server's error about a missing namespace with one that says
// what to do. It returns other errors unchanged.
func ExplainMissingNamespace(ctx context.Context, c *connect.Client, common session.Common, err error) error {
	name := common.Namespace
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("namespaces %q not found", name)) {
		return err
	}
	if allowed(ctx, c, createNamespacePermission, "") {
		return missingNamespaceError(common)
	}
	return cannotCreateNamespace(ctx, c, name, createNamespacePermission)
}

// createInHelmfile is the helmfile's counterpart of --create-namespace.
const createInHelmfile = "createNamespace: true in the helmfile"

// missingNamespaceError returns the error about a missing namespace that the user may be able to create.
func missingNamespaceError(common session.Common) error {
	fix := "use --create-namespace"
	if common.Provided != nil {
		fix = "set " + createInHelmfile
	}
	return fmt.Errorf("namespace %s does not exist: create it, or %s", common.Namespace, fix)
}

// cannotCreateNamespace returns the error about a missing namespace that the user cannot create without another permission.
func cannotCreateNamespace(ctx context.Context, c *connect.Client, name string, lacks permissions.Permission) error {
	text := missingPermissionsText(c, Username(ctx, c), permissions.Set{lacks: nil})
	return &Refusal{Conflicts: []plan.Warning{{Message: fmt.Sprintf("namespace %s does not exist, and %s", name, text)}}}
}

// fixTerminating says what to do about a namespace that stays terminating.
func fixTerminating(ns *corev1.Namespace) string {
	if slices.ContainsFunc(ns.Status.Conditions, func(c corev1.NamespaceCondition) bool {
		return c.Type == corev1.NamespaceFinalizersRemaining && c.Status == corev1.ConditionTrue
	}) {
		return "find out why their controllers do not remove the finalizers"
	}
	return "try again later"
}

// whyTerminating returns ": " and why a namespace has not been deleted yet, "" if that is unknown.
func whyTerminating(ns *corev1.Namespace) string {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ns)
	if err != nil {
		return ""
	}
	why := status.WhyTerminating(&unstructured.Unstructured{Object: fields})
	if why == "" {
		return ""
	}
	return ": " + why
}
