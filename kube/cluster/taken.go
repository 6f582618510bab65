package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/plan"
	"lockstep/kube/manifest"
)

// TakenOver are the existing objects of others that a run has taken over (--take-ownership). Helm deletes them when it rolls
// back; lockstep keeps them, because they were there before the run. A nil *TakenOver is empty.
type TakenOver struct {
	mu      sync.Mutex
	objects map[plan.Object]takenObject
}

type takenObject struct {
	uid   types.UID
	owner string // "" for nobody
	kept  bool
}

// note records an object that is about to be taken over, unless it is the release's.
func (t *TakenOver) note(scope manifest.Scope, claims manifest.Claims, f *manifest.Fact) {
	s := f.Seen()
	if t == nil || !claims.Take || s.Version == "" || f.Rule.Hook || f.Unlabelled || claims.Owns(scope, f) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objects == nil {
		t.objects = map[plan.Object]takenObject{}
	}
	t.objects[f.Resource.Object] = takenObject{uid: s.UID, owner: scope.Other(s)}
}

// has reports whether the run took over an object, and has not replaced it since. A removal then keeps it.
func (t *TakenOver) has(o plan.Object, uid types.UID) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return uid != "" && t.objects[o].uid == uid
}

// keep records that a removal has kept an object.
func (t *TakenOver) keep(o plan.Object) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if taken, found := t.objects[o]; found {
		taken.kept = true
		t.objects[o] = taken
	}
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
		if taken := t.objects[o]; taken.kept {
			all = append(all, fmt.Sprintf("%s (%s)", o, cmp.Or(taken.owner, "of no release")))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "kept what existed before this run took it over: " + strings.Join(all, ", ")
}
