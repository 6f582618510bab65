// Package overview follows the releases of a namespace, or of all namespaces. The number of its requests does not depend on the
// number of releases: one list and one watch of the records' metadata, one list of the records that are wanted, one list and one
// watch for each kind of their objects, and one watch of pods and one of warnings once something is not ready. Its central types are Overview and
// Release. A few more requests explain why the release that the user looks at has failed. Only package kube imports it.
package overview

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"lockstep/engine/parallel"
	"lockstep/kube/connect"
)

// Key identifies a release.
type Key struct{ Namespace, Name string }

// Release is the latest revision of a release.
type Release struct {
	Key
	Revision int
	Status   string
	Changed  time.Time
	Details
	Health Health
}

// Details are read from the content of a record. They are zero until it was wanted and read.
type Details struct {
	Chart, Version string // name and version of the chart
	By             string // who made the revision, "helm" if Helm did
}

// Overview follows the releases of a namespace. Follow is called once.
type Overview struct {
	client    *connect.Client
	namespace string        // "" for all
	changed   chan struct{} // has a token if the overview has changed since it was shown
	wants     chan struct{} // has a token if wanted has changed

	mu      sync.Mutex
	listed  bool
	away    error // why the releases may be out of date
	records map[recordKey]record
	wanted  []Key
	details map[recordKey]*details
	pods    podCauses
	selection
}

// New returns an Overview of a namespace, "" for all.
func New(c *connect.Client, namespace string) *Overview {
	return &Overview{
		client: c, namespace: namespace, changed: make(chan struct{}, 1), wants: make(chan struct{}, 1),
		records: map[recordKey]record{}, details: map[recordKey]*details{}, selection: selection{asks: make(chan struct{}, 1)},
	}
}

// ErrStorage is the error about releases that are not stored in Secrets or ConfigMaps.
var ErrStorage = errors.New("only releases that Helm stores in Secrets or ConfigMaps can be listed here (HELM_DRIVER)")

// lookEvery is the time after which the releases are shown again though nothing has changed: something may be unready for too long.
const lookEvery = 15 * time.Second

// showDelay is how long changes are collected before they are shown.
const showDelay = 100 * time.Millisecond

// Follow calls show with the releases, sorted by namespace and name, at first and after changes, until ctx is done. listed is
// false until they have been listed. away says why they may be out of date, nil if they are not. Follow returns an error if
// the releases may not be listed.
func (o *Overview) Follow(ctx context.Context, show func(releases []Release, listed bool, away error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	stopListening := o.client.Link().Listen(connect.Listener{
		Unreachable: func(_, _ time.Time, reason string) { o.setAway(errors.New("API server unreachable: " + reason)) },
		Reachable:   func() { o.setAway(nil) },
	})
	defer stopListening()
	bound, err := o.client.Bind(connect.WithRetryTimeout(ctx, 0), &connect.Writes{})
	if err != nil {
		return err
	}
	running.Go(func() {
		if err := o.followRecords(ctx, bound); err != nil {
			cancel(err)
		}
	})
	running.Go(func() { o.followObjects(ctx, bound) })
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		case <-o.changed:
		case <-again.C:
		}
		show(o.releases())
		signal(o.asks)
		_ = parallel.Sleep(ctx, showDelay)
	}
}

// Want says whose details and health are wanted. What was wanted once stays known. It does not block.
func (o *Overview) Want(releases []Key) {
	o.mu.Lock()
	same := slices.Equal(o.wanted, releases)
	o.wanted = slices.Clone(releases)
	o.mu.Unlock()
	if !same {
		signal(o.wants)
	}
}

func (o *Overview) setAway(err error) {
	o.mu.Lock()
	o.away = err
	o.mu.Unlock()
	signal(o.changed)
}

// releases returns the latest revision of each release.
func (o *Overview) releases() (all []Release, listed bool, away error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.latest() {
		row := r.Release
		if d := o.details[r.key()]; d != nil {
			row.Details, row.Health = d.Details, d.health(row.Status, &o.pods, time.Now())
		}
		all = append(all, row)
	}
	slices.SortFunc(all, func(a, b Release) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, o.listed, o.away
}

// latest returns the record of the latest revision of each release. The caller holds the lock.
func (o *Overview) latest() map[Key]record {
	latest := map[Key]record{}
	for r := range maps.Values(o.records) {
		if r.Revision > latest[r.Key].Revision {
			latest[r.Key] = r
		}
	}
	return latest
}

// signal puts a token into a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
