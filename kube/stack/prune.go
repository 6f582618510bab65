package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"

	"lockstep/engine/event"
	"lockstep/kube/connect"
	"lockstep/kube/helmfile"
)

// label is the label on the release records of a named stack. Helm copies it to new revisions.
const label = "lockstep/stack"

// labels adds the stack's label to the labels of a release.
func (s *Stack) labels(own map[string]string) map[string]string {
	if s.opts.Name == "" {
		return own
	}
	all := map[string]string{label: s.opts.Name}
	maps.Copy(all, own)
	return all
}

// addPruned adds the releases with the stack's label that the file no longer defines, in the contexts of the file. Their
// needs are not recorded, so they are removed one after another, the newest first.
func (s *Stack) addPruned(ctx context.Context) error {
	if problems := validation.IsValidLabelValue(s.opts.Name); len(problems) > 0 {
		return fmt.Errorf("stack name %q: %s", s.opts.Name, strings.Join(problems, "; "))
	}
	if !s.opts.Prune {
		return nil
	}
	if s.opts.Name == "" {
		return errors.New("to prune, name the stack")
	}
	type place struct{ context, namespace, name string }
	defined, last := map[place]bool{}, map[string]*member{}
	for _, m := range s.members {
		defined[place{m.context(), m.Namespace, m.Name}] = true
		last[m.context()] = m
	}
	for _, r := range s.opts.File.Others {
		m := &member{Release: r}
		if sample := last[m.context()]; sample != nil && m.Namespace == "" {
			m.Namespace = sample.client.Namespace()
		}
		defined[place{m.context(), m.Namespace, m.Name}] = true
	}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		sample := last[name]
		found, err := labeledReleases(ctx, sample.client, s.opts.Name)
		if err != nil {
			return err
		}
		var previous *member
		for _, r := range found {
			if defined[place{name, r.Namespace, r.Name}] {
				continue
			}
			r.Context, r.FallbackContext, r.At = sample.Context, sample.FallbackContext, "--prune"
			m := &member{
				Release: r, id: r.ID(), remove: true, client: sample.client, watches: sample.watches,
				breakpoints: map[string]event.Status{}, prepared: make(chan struct{}),
			}
			if previous != nil {
				m.needs = []*member{previous}
			}
			previous = m
			s.members, s.byID[m.id] = append(s.members, m), m
		}
	}
	return nil
}

// labeledReleases returns the releases in a cluster with the label of a stack, the oldest first.
func labeledReleases(ctx context.Context, c *connect.Client, name string) (found []helmfile.Release, err error) {
	resource := connect.RecordResource(connect.StorageDriver())
	if resource == "" {
		return nil, fmt.Errorf("--prune needs release records in Secrets or ConfigMaps, not in HELM_DRIVER=%s", connect.StorageDriver())
	}
	records, err := c.Metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).List(ctx, metav1.ListOptions{
		LabelSelector: "owner=helm," + label + "=" + name,
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
	for _, r := range records.Items {
		known := func(f helmfile.Release) bool { return f.Namespace == r.Namespace && f.Name == r.Labels["name"] }
		if r.Labels["status"] != "uninstalled" && !slices.ContainsFunc(found, known) {
			found = append(found, helmfile.Release{Name: r.Labels["name"], Namespace: r.Namespace})
		}
	}
	return found, nil
}
