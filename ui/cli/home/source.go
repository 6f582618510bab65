package home

import (
	"context"
	"strings"
	"sync"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/ui/home"
)

// source reads releases and runs.
type source struct {
	client *kube.Client

	mu       sync.Mutex
	overview *kube.Overview // of the namespace that is followed; nil for none
}

// Follow follows the releases of a namespace.
func (s *source) Follow(ctx context.Context, namespace string, show func(home.Snapshot)) {
	o := s.client.Overview(namespace)
	s.mu.Lock()
	s.overview = o
	s.mu.Unlock()
	var mu sync.Mutex // guards now, and keeps show from being called concurrently
	var now home.Snapshot
	update := func(change func()) {
		mu.Lock()
		defer mu.Unlock()
		change()
		show(now)
	}
	var running sync.WaitGroup
	defer running.Wait()
	live := &liveRuns{client: s.client, runs: map[string]*liveRun{}}
	live.changed = func() { update(func() { now.Runs = live.rows() }) }
	running.Go(func() { live.follow(ctx, namespace) })
	err := o.Follow(ctx, func(rows []kube.ReleaseRow, listed bool, away error) {
		releases := make([]home.Release, len(rows))
		for i, r := range rows {
			releases[i] = releaseRow(r)
		}
		update(func() {
			now.Releases, now.Listed, now.Away = releases, listed, ""
			if away != nil {
				now.Away = "API server unreachable: " + away.Error()
			}
		})
	})
	if err != nil {
		update(func() { now.Away = s.client.ExplainDenied(err).Error() })
	}
}

// releaseRow returns the row of a release.
func releaseRow(r kube.ReleaseRow) home.Release {
	row := home.Release{Key: home.Key(r.Key), Revision: r.Revision, Status: r.Status, Changed: r.Changed,
		Record: home.Record{Chart: strings.TrimSpace(r.Chart + " " + r.Version), By: r.By}}
	row.Health = home.Health{Degraded: r.Health.Failed > 0, Ready: r.Health.Ready, Of: r.Health.Of, Cause: r.Health.Cause}
	switch {
	case r.Health.Cause != "":
		row.Health.Status = event.InProgress
	case r.Health.Known:
		row.Health.Status = event.Ready
	}
	return row
}

// Need says which releases are in view.
func (s *source) Need(releases []home.Key) {
	s.mu.Lock()
	o := s.overview
	s.mu.Unlock()
	if o == nil {
		return
	}
	wanted := make([]kube.ReleaseKey, len(releases))
	for i, k := range releases {
		wanted[i] = kube.ReleaseKey(k)
	}
	o.Want(wanted)
}

func (s *source) History(context.Context, home.Key) ([]home.Revision, error) { return nil, nil }

func (s *source) Namespaces(context.Context) ([]string, error) { return nil, nil }
