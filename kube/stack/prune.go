package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"

	"lockstep/kube/connect"
	"lockstep/kube/helmfile"
	"lockstep/kube/operation"
)

// stackLabel is the label of a named stack on its release records. Helm copies it to new revisions.
const stackLabel = "lockstep/stack"

// labels adds the stack's label to the labels of a release.
func (s *Stack) labels(own map[string]string) map[string]string {
	if s.opts.Name == "" {
		return own
	}
	all := map[string]string{stackLabel: s.opts.Name}
	maps.Copy(all, own)
	return all
}

// checkName checks --stack, which is the value of a label.
func (s *Stack) checkName() error {
	if s.opts.Name == "" && s.opts.Prune {
		return errors.New("--prune needs --stack NAME; use the same name as in earlier runs")
	}
	if len(validation.IsValidLabelValue(s.opts.Name)) > 0 {
		return fmt.Errorf("invalid --stack %q: %s", s.opts.Name, operation.LabelSyntax)
	}
	return nil
}

// addPruned adds the releases with the stack's label that the file no longer defines, in the contexts of the file. Their
// needs are not recorded, so they are removed one after another, the newest first.
func (s *Stack) addPruned(ctx context.Context) error {
	if !s.opts.Prune {
		return nil
	}
	byContext := map[string]*member{} // any member of each context
	for _, m := range s.members {
		byContext[m.context()] = m
	}
	defined := s.definedReleases(byContext)
	for _, name := range slices.Sorted(maps.Keys(byContext)) {
		sample := byContext[name]
		found, err := labeledReleases(ctx, sample.client, s.opts.Name)
		if err != nil {
			return err
		}
		var previous *member
		for _, r := range found {
			if defined[releaseKey{name, r.Namespace, r.Name}] {
				continue
			}
			r.Context, r.FallbackContext, r.At = sample.Context, sample.FallbackContext, "--prune"
			m := newMember(r, true)
			m.client, m.watches = sample.client, sample.watches
			if previous != nil {
				m.needs = []*member{previous}
			}
			previous = m
			s.add(m)
		}
	}
	return nil
}

// releaseKey identifies a release in all clusters.
type releaseKey struct{ context, namespace, name string }

// definedReleases returns the releases that the file defines, including those that a condition or selector excludes. A
// release without a namespace is in the namespace of the connection to its context.
func (s *Stack) definedReleases(byContext map[string]*member) map[releaseKey]bool {
	defined := map[releaseKey]bool{}
	for _, m := range s.members {
		defined[releaseKey{m.context(), m.Namespace, m.Name}] = true
	}
	for _, r := range s.opts.File.Others {
		m := newMember(r, false)
		if sample := byContext[m.context()]; sample != nil && m.Namespace == "" {
			m.Namespace = sample.client.Namespace()
		}
		defined[releaseKey{m.context(), m.Namespace, m.Name}] = true
	}
	return defined
}

// labeledReleases returns the releases in a cluster with the label of a stack, the oldest first.
func labeledReleases(ctx context.Context, c *connect.Client, name string) (found []helmfile.Release, err error) {
	resource := connect.RecordResource(connect.StorageDriver())
	if resource == "" {
		return nil, fmt.Errorf("--prune needs release records in Secrets or ConfigMaps, not in HELM_DRIVER=%s; "+
			"omit --prune, and remove old releases with: lockstep uninstall NAME", connect.StorageDriver())
	}
	records, err := c.Metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).List(ctx, metav1.ListOptions{
		LabelSelector: "owner=helm," + stackLabel + "=" + name,
	})
	if err != nil {
		return nil, fmt.Errorf("find the releases of stack %s in all namespaces of context %s: %w", name, c.ContextName(), err)
	}
	slices.SortStableFunc(records.Items, func(a, b metav1.PartialObjectMetadata) int {
		// Creation times have a resolution of one second. The last update of a record is at the end of its run, and runs of
		// releases that need others end later.
		updated, _ := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), updated)
	})
	return installedReleases(records.Items), nil
}

// installedReleases returns the releases of release records, in the order of their first records. It omits releases that
// were uninstalled but kept their history.
func installedReleases(records []metav1.PartialObjectMetadata) (found []helmfile.Release) {
	latest, status := map[releaseKey]int{}, map[releaseKey]string{}
	for _, r := range records {
		key := releaseKey{"", r.Namespace, r.Labels["name"]}
		version, _ := strconv.Atoi(r.Labels["version"])
		if _, known := status[key]; !known {
			found = append(found, helmfile.Release{Name: key.name, Namespace: key.namespace})
		}
		if version >= latest[key] {
			latest[key], status[key] = version, r.Labels["status"]
		}
	}
	return slices.DeleteFunc(found, func(f helmfile.Release) bool {
		return status[releaseKey{"", f.Namespace, f.Name}] == "uninstalled"
	})
}
