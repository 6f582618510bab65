package drift

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
	"lockstep/kube/release"
)

const (
	// maxGets is the number of objects in a collection up to which each is read by itself.
	maxGets = 3
	// maxConcurrent limits how many collections are read at a time.
	maxConcurrent = 16
)

// reader reads live objects.
type reader struct {
	ctx    context.Context
	client *connect.Client

	mu       sync.Mutex                      // guards the maps
	scalers  map[string]map[plan.Object]bool // what autoscalers scale, by namespace
	recorded map[string]time.Time            // by record, see recordedAt
}

func newReader(ctx context.Context, c *connect.Client) *reader {
	return &reader{ctx: ctx, client: c, scalers: map[string]map[plan.Object]bool{}, recorded: map[string]time.Time{}}
}

// collection is a resource in a namespace.
type collection struct {
	gvr       schema.GroupVersionResource
	namespace string
}

// readAll reads the live objects of all targets.
func (r *reader) readAll(targets []*target) {
	byCollection := map[collection][]*target{}
	for _, t := range targets {
		if t.err == nil {
			k := collection{t.info.Mapping.Resource, t.info.Namespace}
			byCollection[k] = append(byCollection[k], t)
		}
	}
	var reads errgroup.Group
	reads.SetLimit(maxConcurrent)
	for k, wanted := range byCollection {
		reads.Go(func() error {
			r.read(k, wanted)
			return nil
		})
	}
	_ = reads.Wait() // the targets have the errors
}

// read reads the objects of a collection: each by itself if there are few, else with one list of those that Helm has marked.
// Those that this list lacks, because somebody has deleted them or removed their label, need up to two more requests.
func (r *reader) read(k collection, wanted []*target) {
	if len(wanted) > maxGets {
		missing, err := r.list(k, manifest.ManagedByKey+"=Helm", wanted)
		if err == nil && len(missing) >= maxGets {
			missing, err = r.list(k, "owner!=helm", missing) // all but Helm's records, which are large
			if err == nil {
				return
			}
		}
		wanted = missing
	}
	for _, t := range wanted {
		if t.live, t.err = r.client.Dynamic.Resource(k.gvr).Namespace(k.namespace).Get(r.ctx, t.info.Name, metav1.GetOptions{}); t.err != nil {
			t.live = nil
		}
	}
}

// list reads the wanted objects of a collection, and returns those that it does not have. It returns all with an error.
func (r *reader) list(k collection, selector string, wanted []*target) (missing []*target, err error) {
	found, err := r.client.Dynamic.Resource(k.gvr).Namespace(k.namespace).List(r.ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return wanted, err
	}
	byName := make(map[string]*unstructured.Unstructured, len(found.Items))
	for n := range found.Items {
		byName[found.Items[n].GetName()] = &found.Items[n]
	}
	for _, t := range wanted {
		if t.live = byName[t.info.Name]; t.live == nil {
			missing = append(missing, t)
		}
	}
	return missing, nil
}

// confirm asks the API server, by a dry run of the object, which fields applying it again would change, if that is not clear: of fields
// that the record has empty and the cluster lacks, because the API server may not store them, and of those that Helm itself has
// written, maybe for another release or program. Defaults, and what a webhook makes of the object, would be the same. The latter count
// only if the object is another release's now or was written after the operation: a webhook for new objects is not called again.
func (r *reader) confirm(targets []*target) {
	var asks errgroup.Group
	asks.SetLimit(maxConcurrent)
	for _, t := range targets {
		sent, ok := t.info.Object.(*unstructured.Unstructured)
		if !ok || t.live == nil || t.live.GetDeletionTimestamp() != nil {
			continue
		}
		recorded := manifest.AsStored(sent)
		t.changed, t.rewritten = manifest.Differences(recorded, t.live), manifest.Rewritten(recorded, t.live)
		if len(t.rewritten) > 0 && !r.mayBeOthers(t) {
			t.rewritten = nil
		}
		if len(t.rewritten) == 0 && !slices.ContainsFunc(t.changed, func(d manifest.Difference) bool { return d.IsEmpty(recorded) }) {
			continue
		}
		asks.Go(func() error {
			applied, err := r.client.Dynamic.Resource(t.info.Mapping.Resource).Namespace(t.info.Namespace).Apply(r.ctx, t.info.Name, sent,
				metav1.ApplyOptions{Force: true, FieldManager: connect.FieldManager, DryRun: []string{metav1.DryRunAll}})
			switch {
			case err == nil:
				t.changed = manifest.Confirmed(t.changed, recorded, t.live, applied)
				t.rewritten = manifest.Confirmed(t.rewritten, recorded, t.live, applied)
			case len(t.rewritten) > 0 && t.scope.Other(manifest.SeenAs(t.live)) == "": // else it is another release's, which has written them
				t.unsure = err
			}
			return nil
		})
	}
	_ = asks.Wait() // the targets have the errors
}

// mayBeOthers reports whether values that Helm wrote and that differ from the record may be the work of another release or program.
func (r *reader) mayBeOthers(t *target) bool {
	return t.scope.Other(manifest.SeenAs(t.live)) != "" || manifest.WrittenByHelm(t.live).After(r.recordedAt(t.release))
}

// recordedAt returns when the record of a release was stored last, by the clock of the API server: at the end of its operation or of its
// tests. It is zero if that is unknown.
func (r *reader) recordedAt(rel *Release) (at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	resource, key := connect.RecordResource(connect.StorageDriver()), release.Keys(rel.Release, []int{rel.Revision})[0]
	if at, known := r.recorded[rel.Namespace+"/"+key]; known || resource == "" {
		return at
	}
	records := r.client.Metadata.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(rel.Namespace)
	if record, err := records.Get(r.ctx, key, metav1.GetOptions{}); err == nil {
		at = manifest.LastWritten(record.ManagedFields)
	}
	r.recorded[rel.Namespace+"/"+key] = at
	return at
}

// isScaled reports whether an autoscaler in the cluster sets the replicas of a workload. It lists those of a namespace once. If
// that is not permitted, no workload counts as scaled.
func (r *reader) isScaled(t *target) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	namespace := t.object.Namespace
	if r.scalers[namespace] == nil {
		scaled := map[plan.Object]bool{}
		r.scalers[namespace] = scaled
		list, err := r.client.Clientset.AutoscalingV2().HorizontalPodAutoscalers(namespace).List(r.ctx, metav1.ListOptions{})
		if err != nil {
			if !apierrors.IsNotFound(err) {
				t.release.Warnings = append(t.release.Warnings, plan.Warning{Rule: "S18", Message: "the autoscalers of namespace " + namespace +
					" cannot be listed, so the replicas that they set count as drift: " + err.Error()})
			}
			return false
		}
		for _, a := range list.Items {
			ref := a.Spec.ScaleTargetRef
			gv, _ := schema.ParseGroupVersion(ref.APIVersion)
			scaled[plan.Object{Group: gv.Group, Kind: ref.Kind, Namespace: namespace, Name: ref.Name}] = true
		}
	}
	return r.scalers[namespace][t.object]
}
