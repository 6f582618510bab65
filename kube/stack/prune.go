package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/connect"
	"lockstep/kube/helmfile"
	"lockstep/kube/operation"
)

// labels adds the stack's label to the labels of a release.
func (s *Stack) labels(own map[string]string) map[string]string {
	if s.opts.Name == "" {
		return own
	}
	all := map[string]string{operation.StackLabel: s.opts.Name}
	maps.Copy(all, own)
	return all
}

// checkOptions checks --stack, which is the value of a label, and --prune.
func (s *Stack) checkOptions() error {
	switch {
	case s.opts.Name == "" && s.opts.Prune:
		return errors.New("--prune needs --stack NAME; use the same name as in earlier runs")
	case !s.opts.Prune && len(s.opts.PruneNamespaces) > 0:
		return errors.New("--prune-namespace needs --prune")
	case s.opts.Prune && len(s.opts.File.Unread) > 0:
		unread := s.opts.File.Unread[0]
		if unread.Missing != "" {
			return fmt.Errorf("--prune needs all releases of the file, but %s includes %s, which does not exist; restore it, remove the entry, or omit --prune", unread.File, unread.Missing)
		}
		return fmt.Errorf("--prune needs all releases of the file, but %s includes others and does not define environment %q; "+
			"define the environment there, or omit --prune", unread.File, s.opts.File.Environment)
	case s.opts.Prune && connect.RecordResource(connect.StorageDriver()) == "":
		return fmt.Errorf("--prune needs release records in Secrets or ConfigMaps, not in HELM_DRIVER=%s; "+
			"omit --prune, and remove old releases with: "+text.Program+" uninstall NAME", connect.StorageDriver())
	}
	if len(validation.IsValidLabelValue(s.opts.Name)) > 0 {
		return fmt.Errorf("invalid --stack %q: %s", s.opts.Name, operation.LabelSyntax)
	}
	return nil
}

// addPruned adds the releases to remove: those whose newest record has the stack's label, and that the file does not
// define. It looks only in the namespaces in which the file has releases, and in those of --prune-namespace: the same
// file with another -n is another installation. What it leaves elsewhere becomes a warning. The needs of these releases
// are not recorded, so they are removed one after another, the newest first.
func (s *Stack) addPruned(ctx context.Context) error {
	if !s.opts.Prune {
		return nil
	}
	var pruned []*member
	for _, in := range s.pruneScopes() {
		found, err := in.find(ctx, s.opts.Name)
		if err != nil {
			return err
		}
		var previous *member
		for _, r := range found {
			if s.defines(releaseID{place{in.cluster, r.Namespace}, r.Name}) {
				continue
			}
			m := in.remover(r)
			if previous != nil {
				m.needs = []*member{previous}
			}
			previous, pruned = m, append(pruned, m)
		}
		s.warnAboutOthers(ctx, in)
	}
	for _, m := range pruned {
		s.add(m)
	}
	if len(pruned) > 0 {
		s.warnings = append(s.warnings, plan.Warning{Rule: "S10", Message: fmt.Sprintf("--prune uninstalls what stack %s has installed and the file no longer defines: %s",
			s.opts.Name, joinIDs(pruned))})
	}
	return nil
}

func joinIDs(members []*member) string {
	var ids []string
	for _, m := range members {
		ids = append(ids, m.id)
	}
	slices.Sort(ids)
	return strings.Join(ids, ", ")
}

// pruneScope is where releases of a cluster may be removed, with a member that connects to each namespace: its user has
// rights there.
type pruneScope struct {
	cluster    connect.ClusterID
	any        *member
	namespaces map[string]*member
}

// pruneScopes returns the scope in each cluster of the file.
func (s *Stack) pruneScopes() (all []*pruneScope) {
	for _, m := range s.members {
		i := slices.IndexFunc(all, func(in *pruneScope) bool { return in.cluster == m.cluster })
		if i < 0 {
			i, all = len(all), append(all, &pruneScope{m.cluster, m, map[string]*member{}})
			for _, ns := range s.opts.PruneNamespaces {
				all[i].namespaces[ns] = m
			}
		}
		all[i].namespaces[m.Namespace] = m
	}
	return all
}

// find returns the releases of a stack in the scope, the oldest first.
func (in *pruneScope) find(ctx context.Context, stack string) ([]helmfile.Release, error) {
	var records []metav1.PartialObjectMetadata
	for _, ns := range slices.Sorted(maps.Keys(in.namespaces)) {
		more, err := stackRecords(ctx, in.namespaces[ns].client, ns, stack)
		if err != nil {
			return nil, err
		}
		records = append(records, more...)
	}
	return releasesOf(records, stack), nil
}

// remover returns a member that removes a release of the scope.
func (in *pruneScope) remover(r helmfile.Release) *member {
	connected := in.namespaces[r.Namespace]
	r.Context, r.At = cmp.Or(connected.Context, connected.FallbackContext), "--prune"
	m := newMember(r, true)
	m.pruned, m.client, m.watches, m.cluster = true, connected.client, connected.watches, in.cluster
	return m
}

// warnAboutOthers warns of the stack's releases in namespaces outside of the scope. A user who may not list records in all
// namespaces gets no such warning.
func (s *Stack) warnAboutOthers(ctx context.Context, in *pruneScope) {
	records, err := stackRecords(ctx, in.any.client, metav1.NamespaceAll, s.opts.Name)
	if err != nil {
		return
	}
	left := map[string][]string{} // names by namespace
	for _, r := range releasesOf(records, s.opts.Name) {
		if in.namespaces[r.Namespace] == nil && !s.defines(releaseID{place{in.cluster, r.Namespace}, r.Name}) {
			left[r.Namespace] = append(left[r.Namespace], r.Name)
		}
	}
	for _, ns := range slices.Sorted(maps.Keys(left)) {
		slices.Sort(left[ns])
		s.warnings = append(s.warnings, plan.Warning{Rule: "S10", Message: fmt.Sprintf("--prune leaves %s of stack %s in namespace %s, in which the file has no releases; "+
			"to uninstall them too, add --prune-namespace %s", strings.Join(left[ns], ", "), s.opts.Name, ns, ns)})
	}
}

// defines reports whether the file defines a release, in whatever context. A release that takes no part in the run is not
// connected to, so its cluster, and perhaps its namespace, is unknown: it counts in each.
func (s *Stack) defines(id releaseID) bool {
	return slices.ContainsFunc(s.members, func(m *member) bool { return m.identity() == id }) ||
		slices.ContainsFunc(s.opts.File.Others, func(r helmfile.Release) bool {
			return r.Name == id.name && (r.Namespace == "" || r.Namespace == id.namespace)
		})
}

// stackRecords returns all records of the releases in a namespace that have at least one record with the stack's label.
func stackRecords(ctx context.Context, c *connect.Client, namespace, stack string) ([]metav1.PartialObjectMetadata, error) {
	records := c.Metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: connect.RecordResource(connect.StorageDriver())})
	list := func(namespace, selector string) ([]metav1.PartialObjectMetadata, error) {
		l, err := records.Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm," + selector})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			where := "namespace " + namespace
			if namespace == metav1.NamespaceAll {
				where = "all namespaces"
			}
			return nil, fmt.Errorf("find the releases of stack %s in %s of context %s: %w", stack, where, c.ContextName(), err)
		}
		return l.Items, nil
	}
	labeled, err := list(namespace, operation.StackLabel+"="+stack)
	if err != nil {
		return nil, err
	}
	names := map[string][]string{} // by namespace
	for _, r := range labeled {
		if name := r.Labels["name"]; !slices.Contains(names[r.Namespace], name) {
			names[r.Namespace] = append(names[r.Namespace], name)
		}
	}
	var all []metav1.PartialObjectMetadata
	for ns := range names {
		for some := range slices.Chunk(names[ns], maxNames) {
			more, err := list(ns, "name in ("+strings.Join(some, ",")+")")
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
	}
	return all, nil
}

// maxNames limits the names in one request, because proxies limit the length of a URL.
const maxNames = 50

// releasesOf returns the releases whose newest record has the stack's label, in the order of their first records. It
// omits releases that were uninstalled but kept their history. An older record with the label says only that the release
// was once in the stack.
func releasesOf(records []metav1.PartialObjectMetadata, stack string) (found []helmfile.Release) {
	slices.SortStableFunc(records, func(a, b metav1.PartialObjectMetadata) int {
		// Creation times have a resolution of one second. The last update of a record is at the end of its run, and runs of
		// releases that need others end later.
		updated, _ := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), updated)
	})
	type release struct{ namespace, name string } // of one cluster
	newest := map[release]metav1.PartialObjectMetadata{}
	version := func(r metav1.PartialObjectMetadata) int {
		n, _ := strconv.Atoi(r.Labels["version"])
		return n
	}
	for _, r := range records {
		key := release{r.Namespace, r.Labels["name"]}
		last, known := newest[key]
		if !known {
			found = append(found, helmfile.Release{Name: key.name, Namespace: key.namespace})
		}
		if !known || version(r) >= version(last) {
			newest[key] = r
		}
	}
	return slices.DeleteFunc(found, func(f helmfile.Release) bool {
		last := newest[release{f.Namespace, f.Name}]
		return last.Labels[operation.StackLabel] != stack || last.Labels["status"] == "uninstalled"
	})
}

// prunedFirst returns the IDs of the pruned releases that are removed first in their cluster.
func (s *Stack) prunedFirst() (ids []string) {
	needed := map[*member]bool{}
	for _, m := range s.members {
		for _, n := range m.needs {
			needed[n] = true
		}
	}
	for _, m := range s.members {
		if m.pruned && !needed[m] { // a removal starts with what nothing needs (S9)
			ids = append(ids, m.id)
		}
	}
	return ids
}
