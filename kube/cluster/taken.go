package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/plan"
	"lockstep/kube/journal"
	"lockstep/kube/manifest"
)

// TakenOver are the existing objects of others that a run has taken over (--take-ownership). Helm deletes them when it rolls
// back; lockstep keeps them, because they were there before the run. A nil *TakenOver is empty.
type TakenOver struct {
	entry   *journal.Entry // keeps them for the next pod, nil outside of the cluster
	mu      sync.Mutex
	objects map[plan.Object]takenObject
}

type takenObject struct {
	uid   types.UID
	owner string // "" for nobody
	kept  bool
}

// NewTakenOver returns the objects that earlier pods of a Job have taken over. entry is nil outside of the cluster.
func NewTakenOver(entry *journal.Entry) *TakenOver {
	t := &TakenOver{entry: entry, objects: map[plan.Object]takenObject{}}
	for _, k := range entry.Before().Taken {
		t.objects[k.Object] = takenObject{uid: k.UID, owner: k.Owner}
	}
	return t
}

// note records an object that is about to be taken over, unless it is the release's. A run in the cluster keeps that first
// (S13).
func (t *TakenOver) note(ctx context.Context, scope manifest.Scope, claims manifest.Claims, f *manifest.Fact) error {
	s, o := f.Seen(), f.Resource.Object
	if t == nil || !claims.Take || s.Version == "" || f.Rule.Hook || f.Unlabelled || claims.Owns(scope, f) || t.has(o, s.UID) {
		return nil
	}
	t.mu.Lock()
	t.objects[o] = takenObject{uid: s.UID, owner: scope.Other(s)}
	t.mu.Unlock()
	err := t.entry.Keep(ctx, func(k *journal.Kept) { k.Taken = t.all() })
	if err == nil {
		return nil
	}
	t.mu.Lock()
	delete(t.objects, o) // another attempt keeps it
	t.mu.Unlock()
	return fmt.Errorf("keep that %s is taken over, for the pod that may replace this one: %w", o, err)
}

// all returns the objects in the form in which they are kept.
func (t *TakenOver) all() (all []journal.Taken) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range slices.SortedFunc(maps.Keys(t.objects), plan.Object.Compare) {
		all = append(all, journal.Taken{Object: o, UID: t.objects[o].uid, Owner: t.objects[o].owner})
	}
	return all
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
