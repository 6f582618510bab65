package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
	"lockstep/kube/release"
)

// TakenOver are the existing objects of others that a release has taken over (--take-ownership), and that no revision of it
// has had when it was deployed. Helm deletes them when it rolls back; lockstep keeps them, because they were there before. The
// record of a revision has them before it is applied, so that a run that is killed does not forget them. A nil *TakenOver is
// empty.
type TakenOver struct {
	saving  sync.Mutex // held while a record is written
	mu      sync.Mutex
	save    func() error // adds them to the record of the created revision, nil before there is one
	objects map[plan.Object]takenObject
	created types.UID // of the namespace that this run created first
}

type takenObject struct {
	release.Taken
	kept bool
}

// NewTakenOver returns the objects that earlier runs have taken over.
func NewTakenOver(earlier []release.Taken) *TakenOver {
	t := &TakenOver{objects: map[plan.Object]takenObject{}}
	for _, k := range earlier {
		t.objects[k.Object] = takenObject{Taken: k}
	}
	return t
}

// SaveWith sets the function that adds the objects to the record of the created revision.
func (t *TakenOver) SaveWith(save func() error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.save = save
}

// NamespaceCreated says that the run created the namespace of the release, which its chart may have, too: so it did not exist
// before.
func (t *TakenOver) NamespaceCreated(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.created = uid
}

// Expect notes the objects of a list that are going to be taken over, as they were last seen. It is for a revision that is about
// to be created.
func (t *TakenOver) Expect(b *manifest.Builder, claims manifest.Claims, list helmkube.ResourceList) {
	for _, i := range list {
		if f := b.Fact(i); f != nil {
			t.add(b.Scope(), claims, f)
		}
	}
}

// add records an object that is about to be taken over, and reports whether it was not known.
func (t *TakenOver) add(scope manifest.Scope, claims manifest.Claims, f *manifest.Fact) bool {
	s, o := f.Seen(), f.Resource.Object
	// One that was taken over before may have had another owner since.
	if t == nil || f.Rule.Hook || f.Unlabelled || !claims.TakesOver(scope, f) || t.has(o, s.UID) && s.Owner == scope.Owner() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.UID == t.created {
		return false
	}
	t.objects[o] = takenObject{Taken: release.Taken{Object: o, UID: s.UID, Marks: s.Marks}}
	return true
}

// note is add for an object whose revision exists: the record gets it first.
func (t *TakenOver) note(scope manifest.Scope, claims manifest.Claims, f *manifest.Fact) error {
	if !t.add(scope, claims, f) {
		return nil
	}
	t.mu.Lock()
	save := t.save
	t.mu.Unlock()
	if save == nil {
		return nil
	}
	t.saving.Lock()
	defer t.saving.Unlock()
	err := save()
	if err == nil {
		return nil
	}
	o := f.Resource.Object
	t.mu.Lock()
	delete(t.objects, o) // another attempt saves it
	t.mu.Unlock()
	return fmt.Errorf("record that %s is taken over: %w", o, err)
}

// All returns the objects in the form in which they are recorded.
func (t *TakenOver) All() (all []release.Taken) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range slices.SortedFunc(maps.Keys(t.objects), plan.Object.Compare) {
		all = append(all, t.objects[o].Taken)
	}
	return all
}

// has reports whether the release took over an object, and has not replaced it since. A removal then keeps it.
func (t *TakenOver) has(o plan.Object, uid types.UID) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return uid != "" && t.objects[o].UID == uid
}

// giveBack restores the marks of an object that a removal has kept because the release took it over. So it is its owner's
// again, or nobody's. If somebody else has marked it since, it is theirs.
func (s Session) giveBack(i *resource.Info, f *manifest.Fact) error {
	t, o, seen := s.Taken, f.Resource.Object, f.Seen()
	if !t.has(o, seen.UID) {
		return nil
	}
	t.mu.Lock()
	taken, ours := t.objects[o], seen.Owner == s.Builder.Scope().Owner()
	restored := seen.Marks == taken.Marks
	taken.kept = restored || ours
	t.objects[o] = taken
	t.mu.Unlock()
	if restored || !ours {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": taken.Marks.Patch(taken.UID)})
	if err == nil {
		_, err = resource.NewHelper(i.Client, i.Mapping).WithFieldManager(connect.FieldManager).
			Patch(i.Namespace, i.Name, types.MergePatchType, patch, nil)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("give %s back to its owner: %w", o, err)
	}
	return nil
}

// Kept names the objects that removals have kept, with their owners before the run, "" for none.
func (t *TakenOver) Kept() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, o := range slices.SortedFunc(maps.Keys(t.objects), plan.Object.Compare) {
		taken, owner := t.objects[o], "of no release"
		if m := taken.Marks; m.Manager == "Helm" && m.Release != "" {
			owner = manifest.Owner(m.Release, m.Namespace)
		}
		if taken.kept {
			all = append(all, fmt.Sprintf("%s (%s)", o, owner))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "kept what existed before this release took it over: " + strings.Join(all, ", ")
}
