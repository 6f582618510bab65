package home

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/incluster"
	"lockstep/ui/cli/runs"
	"lockstep/ui/home"
	"lockstep/ui/report"
)

// source reads releases and runs.
type source struct {
	client *kube.Client

	mu       sync.Mutex
	overview *kube.Overview // of the namespace that is followed; nil for none
	outside  *outside       // nil for none
	update   func(func(*home.Snapshot))
	ctx      context.Context
	denied   map[string]map[string]string // by namespace; those that were asked for
}

// Follow follows the releases of a namespace.
func (s *source) Follow(ctx context.Context, namespace string, show func(home.Snapshot)) {
	var mu sync.Mutex // guards now, and keeps show from being called concurrently
	var now home.Snapshot
	var own []home.Release // in the namespace
	update := func(change func(*home.Snapshot)) {
		mu.Lock()
		defer mu.Unlock()
		change(&now)
		show(now)
	}
	o := s.client.Overview(namespace)
	outside := &outside{client: s.client, shown: namespace, overviews: map[string]*kube.Overview{}, rows: map[string][]kube.ReleaseRow{}}
	s.mu.Lock()
	s.overview, s.outside, s.update, s.ctx, s.denied = o, outside, update, ctx, map[string]map[string]string{}
	s.mu.Unlock()
	var running sync.WaitGroup
	defer running.Wait()
	live := &liveRuns{client: s.client, namespace: namespace, runs: map[string]*liveRun{}}
	past, shown := outcomes{}, 0       // guarded by mu
	join := func(now *home.Snapshot) { // the screen has the old ones
		now.Releases = append(slices.Clone(own), outside.releases(now.Stacks)...)
		past.describe(now.Releases)
	}
	outside.changed = func() { update(join) }
	describeAgain := func() {
		read, stacks := readOutcomes(s.client.ContextName()), lastStacks(s.client.ContextName(), time.Now())
		update(func(now *home.Snapshot) {
			past, now.Stacks = read, stacks
			join(now)
			now.LastFailed = past.lastFailed()
		})
		outside.follow(ctx, stacks)
	}
	live.changed = func() {
		rows := live.rows()
		update(func(now *home.Snapshot) {
			if len(rows) < shown { // a run has ended; its record is complete a moment later
				time.AfterFunc(time.Second, describeAgain)
			}
			now.Runs, shown = rows, len(rows)
		})
	}
	running.Go(describeAgain)
	running.Go(func() { live.follow(ctx) })
	if namespace != "" {
		s.askRights(namespace)
	}
	var lookForNamespace sync.Once
	err := o.Follow(ctx, func(rows []kube.ReleaseRow, listed bool, away error) {
		releases := make([]home.Release, len(rows))
		for i, r := range rows {
			releases[i] = releaseRow(r)
		}
		if listed && len(rows) == 0 && namespace != "" {
			lookForNamespace.Do(func() {
				running.Go(func() {
					lacks := s.client.LacksNamespace(ctx, namespace)
					update(func(now *home.Snapshot) { now.NoNamespace = lacks })
				})
			})
		}
		update(func(now *home.Snapshot) {
			own = releases
			join(now)
			now.Listed, now.Away = listed, ""
			now.NoNamespace = now.NoNamespace && len(rows) == 0
			if away != nil {
				now.Away = away.Error() + "; trying again"
			}
		})
	})
	if err != nil {
		update(func(now *home.Snapshot) { now.Away = s.client.ExplainDenied(err).Error() })
	}
}

// askRights asks once what is permitted in a namespace, in the background.
func (s *source) askRights(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.denied[namespace] != nil {
		return
	}
	s.denied[namespace] = map[string]string{} // is being asked for
	ctx, update := s.ctx, s.update
	go func() {
		denied, err := s.client.Denied(ctx, namespace)
		if err != nil {
			return // each operation checks its permissions anyway
		}
		s.mu.Lock()
		s.denied[namespace] = denied
		all := maps.Clone(s.denied)
		s.mu.Unlock()
		update(func(now *home.Snapshot) { now.Denied = all })
	}()
}

// releaseRow returns the row of a release.
func releaseRow(r kube.ReleaseRow) home.Release {
	row := home.Release{Key: home.Key(r.Key), Revision: r.Revision, Status: r.Status, Changed: r.Changed,
		Record: record(r.Details)}
	if r.Status == rcommon.StatusUninstalling.String() { // its objects are to go, not to become ready
		return row
	}
	row.Health = home.Health{Degraded: r.Health.Failed > 0, Ready: r.Health.Ready, Of: r.Health.Of, Cause: r.Health.Cause, Since: r.Health.Since}
	switch {
	case r.Health.Cause != "":
		row.Health.Status = event.InProgress
	case r.Health.Known:
		row.Health.Status = event.Ready
	}
	return row
}

func record(d kube.ReleaseDetails) home.Record {
	return home.Record{Chart: text.Join(" ", d.Chart, d.Version), By: d.By}
}

// Need says which releases are in view, and which one is selected.
func (s *source) Need(releases []home.Key, selected home.Key) {
	s.mu.Lock()
	o, outside := s.overview, s.outside
	s.mu.Unlock()
	if o == nil {
		return
	}
	wanted := make([]kube.ReleaseKey, len(releases))
	for i, k := range releases {
		wanted[i] = kube.ReleaseKey(k)
		s.askRights(k.Namespace)
	}
	o.Want(wanted)
	o.Select(kube.ReleaseKey(selected))
	outside.need(wanted, kube.ReleaseKey(selected))
}

// History reads the revisions of a release, and finds the records of their runs on this machine.
func (s *source) History(ctx context.Context, k home.Key) (home.History, error) {
	h, err := s.client.ReleaseHistory(ctx, kube.ReleaseKey(k))
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, home.ErrNoRevisions
	}
	if err != nil {
		return nil, err
	}
	return &history{h, k, s.client.ContextName()}, nil
}

// history is the revisions of a release with the records of their runs.
type history struct {
	*kube.ReleaseHistory
	of      home.Key
	context string
}

func (h *history) Revisions() (all []home.Revision) {
	dir, err := report.RunDir()
	var records report.RunList
	if err == nil {
		records = report.RecordedRuns(dir)
	}
	for _, r := range h.ReleaseHistory.Revisions() {
		row := home.Revision{Number: r.Number, Status: r.Status, Changed: r.Changed, Record: record(r.Details), Description: r.Description, What: r.What, RollbackTo: r.RollbackTo}
		i := slices.IndexFunc(records, func(run report.Run) bool {
			return run.Release == h.of.Name && run.Namespace == h.of.Namespace && run.Revision == r.Number && run.Context == h.context
		})
		if i >= 0 {
			row.Run = records[i].Name
		}
		all = append(all, row)
	}
	return all
}

func (s *source) PastRuns(ctx context.Context, namespace string) ([]home.PastRun, error) {
	_, recorded, err := runs.Recorded()
	out := make([]home.PastRun, len(recorded))
	for i, r := range recorded {
		out[i] = pastRun(r)
	}
	jobs, denied := s.client.ClusterRuns(ctx, namespace)
	for _, elsewhere := range unwatchedIn(recorded, namespace) {
		more, _ := s.client.ClusterRuns(ctx, elsewhere) // without the right, the records say that nobody watched
		jobs = append(jobs, slices.DeleteFunc(more, func(job incluster.Run) bool {
			return !slices.ContainsFunc(recorded, func(r report.Run) bool { return unwatched(r, job) })
		})...)
	}
	out = withoutUnwatched(out, recorded, jobs)
	for _, job := range jobs {
		if job.Ended() {
			out = append(out, home.PastRun{Key: home.Key{Namespace: job.Namespace, Name: job.Release}, Cluster: job.Name, Operation: job.Command, Context: s.client.ContextName(),
				Started: job.Started, Took: job.Over.Sub(job.Started), Status: event.Status(job.State), By: job.By})
		}
	}
	slices.SortStableFunc(out, func(a, b home.PastRun) int { return b.Started.Compare(a.Started) })
	return out, errors.Join(err, denied)
}

// pastRun returns the row of a recorded run.
func pastRun(r report.Run) home.PastRun {
	row := home.PastRun{Key: home.Key{Namespace: r.Namespace, Name: r.Release}, Record: r.Name, Operation: describeOperation(r.Operation, r.Chart), Context: r.Context,
		Started: r.Started, Took: time.Duration(r.Seconds * float64(time.Second)), Live: r.Outcome == report.StillRunning, Status: r.Ending(), Why: whyOf(r), By: r.By}
	if r.Job != "" {
		row.Context = "" // it is how the pod calls its cluster
	}
	return row
}

// unwatchedIn returns the namespaces other than the one shown, "" for all, whose runs in the cluster have records that nobody watched to
// the end.
func unwatchedIn(recorded report.RunList, shown string) (namespaces []string) {
	for _, r := range recorded {
		namespace, _, _ := strings.Cut(r.Job, "/")
		if r.Outcome == report.Unwatched && shown != "" && namespace != shown && !slices.Contains(namespaces, namespace) {
			namespaces = append(namespaces, namespace)
		}
	}
	return namespaces
}

// unwatched reports whether a record is that of a Job that nobody watched to the end.
func unwatched(r report.Run, job incluster.Run) bool {
	return r.Outcome == report.Unwatched && r.Job == job.Namespace+"/"+job.Name
}

// withoutUnwatched leaves out the records that nobody watched to the end if the Job of the run says how it ended: the list has the Job. One
// whose Job has not ended is running.
func withoutUnwatched(runs []home.PastRun, recorded report.RunList, jobs []incluster.Run) (left []home.PastRun) {
	for i, r := range recorded {
		at := slices.IndexFunc(jobs, func(job incluster.Run) bool { return unwatched(r, job) })
		switch {
		case at >= 0 && jobs[at].Ended():
			continue
		case at >= 0:
			runs[i].Live, runs[i].Status = true, event.Running
		}
		left = append(left, runs[i])
	}
	return left
}

// whyOf says why a run waits for a person, or did not succeed.
func whyOf(r report.Run) string {
	switch {
	case r.Outcome == report.Unwatched:
		return "how it ended is unknown"
	case r.Why != "" || r.Outcome == string(event.Succeeded):
		return r.Why
	case r.Object != nil && r.Cause != "":
		return r.Object.String() + ": " + r.Cause
	}
	return r.Message
}

// Namespaces lists the namespaces of the cluster.
func (s *source) Namespaces(ctx context.Context) ([]string, error) { return s.client.Namespaces(ctx) }
