package drift

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-openapi/jsonpointer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
)

// Repair adapts the requests of a repair to the objects that are live when they are sent; the comparison may be hours old.
type Repair struct {
	*Release
	Client *connect.Client
}

// LeftOut is an object that a repair leaves as it is, and why.
type LeftOut struct {
	Object plan.Object
	Why    string
}

func (l LeftOut) Error() string {
	return fmt.Sprintf("%s is not repaired: %s", l.Object, strings.TrimPrefix(l.Why, l.Object.String()+": "))
}

// LeaveOut takes an object out of the repair.
func (r *Release) LeaveOut(o plan.Object, why string) {
	if r.Repairs(o) {
		r.LeftOut = append(r.LeftOut, LeftOut{o, why})
	}
}

func (r *Release) leftOut(o plan.Object) bool {
	return slices.ContainsFunc(r.LeftOut, func(l LeftOut) bool { return l.Object == o })
}

// Adapt gives sent, the object to send, the live values of the fields whose differences do not count, and old, the recorded one, those of
// the fields whose differences count: client-side apply removes what old has and sent lacks.
func (r Repair) Adapt(ctx context.Context, o plan.Object, live, old, sent *unstructured.Unstructured) {
	if t := r.compareAgain(ctx, o, live); t != nil {
		takeLive(sent, t.kept, live)
		lost := func(d manifest.Difference) bool { return len(d.Rekeyed) > 0 } // the element is missing, and another one is not old's
		takeLive(old, slices.DeleteFunc(slices.Clone(t.counted), lost), live)
	}
}

// compareAgain compares an object with the record, nil if the release does not have it.
func (r Repair) compareAgain(ctx context.Context, o plan.Object, live *unstructured.Unstructured) *target {
	t := r.targets[o]
	if t == nil {
		return nil
	}
	r.secrets.AddObject(live.Object)
	now := &target{info: t.info, object: t.object, scope: t.scope, ignored: t.ignored, live: live}
	now.release = &Release{Drift: inspect.Drift{Release: r.Release.Release, Namespace: r.Namespace, Revision: r.Revision}}
	again := r.again.get(ctx, r.Client)
	again.confirm([]*target{now})
	again.divide(now)
	return now
}

// Clear finds the fields of others with which the API server refuses a repaired object as invalid: another port with the name of a lost
// one, or a field that excludes a lost one. It returns as few as possible of those that the record lacks, nil if that does not help.
// sent is the object to send as Adapt has left it.
func (r Repair) Clear(ctx context.Context, o plan.Object, live, sent *unstructured.Unstructured) (*manifest.Cleared, error) {
	t := r.compareAgain(ctx, o, live)
	if t == nil {
		return nil, nil
	}
	recorded := manifest.AsStored(t.info.Object.(*unstructured.Unstructured))
	try := func(without []fieldpath.Path) (cleared *manifest.Cleared, err error) {
		next := manifest.Restored(live, recorded, t.counted, without)
		answer, err := r.dryRun(ctx, t, live, next)
		return &manifest.Cleared{Fields: without, Next: next, Answer: answer}, err
	}
	all := slices.DeleteFunc(manifest.Foreign(sent, live), func(path fieldpath.Path) bool { return ignores(t.ignored, path) })
	found, err := try(all)
	for _, path := range all {
		if err != nil {
			break
		}
		fewer, refused := try(slices.DeleteFunc(slices.Clone(found.Fields), func(p fieldpath.Path) bool { return p.Equals(path) }))
		switch {
		case refused == nil:
			found = fewer
		case !apierrors.IsInvalid(refused):
			err = refused
		}
	}
	if apierrors.IsInvalid(err) || err == nil && len(found.Fields) == 0 {
		return nil, nil
	}
	return found, err
}

// dryRun returns the answer of the API server to a change of an object that is still as it was read.
func (r Repair) dryRun(ctx context.Context, t *target, live, next *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	before, err := json.Marshal(live)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(next)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, err
	}
	if patch, err = jsonpatch.MergeMergePatches(patch, []byte(`{"metadata":{"resourceVersion":"`+live.GetResourceVersion()+`"}}`)); err != nil {
		return nil, err
	}
	return r.Client.Dynamic.Resource(t.info.Mapping.Resource).Namespace(t.info.Namespace).Patch(ctx, t.info.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: connect.FieldManager, DryRun: []string{metav1.DryRunAll}})
}

// ignores reports whether JSON pointers contain a path, as far as it has only names of fields.
func ignores(pointers []string, path fieldpath.Path) bool {
	var b strings.Builder
	for _, part := range path {
		if part.FieldName == nil {
			break
		}
		b.WriteString("/" + jsonpointer.Escape(*part.FieldName))
	}
	return plan.InPointer(b.String(), pointers)
}

func takeLive(u *unstructured.Unstructured, fields []manifest.Difference, live *unstructured.Unstructured) {
	if len(fields) == 0 {
		return
	}
	u.Object = manifest.AsStored(u).Object
	for _, d := range fields {
		d.Keep(u.Object, live.Object)
	}
}

// recentReader is a reader for requests that are sent at about the same time.
type recentReader struct {
	mu   sync.Mutex
	made time.Time
	*reader
}

// recent is how long what a reader has read may be used for requests.
const recent = time.Second

func (r *recentReader) get(ctx context.Context, c *connect.Client) *reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reader == nil || r.ctx != ctx || time.Since(r.made) > recent {
		r.reader, r.made = newReader(ctx, c), time.Now()
	}
	return r.reader
}
