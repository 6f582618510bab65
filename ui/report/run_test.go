package report

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

const sec = time.Second

// behaviour is how an object reacts to requests.
type behaviour struct {
	ready   time.Duration // from the answer until it is ready or gone
	failed  string        // the message with which it fails instead
	tries   int           // how many requests fail; 0 for all
	never   bool          // it never becomes ready
	refused string        // the API server's message if it refuses the request
	change  event.Change
}

// fakeCluster answers each request after a different time, so that the order of events is always the
// same.
type fakeCluster struct {
	mu         sync.Mutex
	behaviours map[string]behaviour // by the object's kind and name, or by its name
	reports    map[plan.Object]func(run.Observation)
	tries      map[string]int
	order      map[plan.Object]time.Duration
}

func newFake(behaviours map[string]behaviour) *fakeCluster {
	return &fakeCluster{behaviours: behaviours, reports: map[plan.Object]func(run.Observation){}, tries: map[string]int{}, order: map[plan.Object]time.Duration{}}
}

func (f *fakeCluster) Watch(_ context.Context, g *plan.Group, report func(run.Observation)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range g.Objects {
		f.reports[o] = report
		if f.order[o] == 0 {
			n := time.Duration(len(f.order) + 1)
			f.order[o] = n*10*time.Millisecond + n*n*137*time.Microsecond
		}
	}
}

func (f *fakeCluster) enter(o plan.Object) (behaviour, int, time.Duration, func(run.Observation)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries[o.String()]++
	b, ok := f.behaviours[o.String()]
	if !ok {
		b = f.behaviours[o.Name]
	}
	return b, f.tries[o.String()], f.order[o], f.reports[o]
}

func (f *fakeCluster) Apply(ctx context.Context, _ *plan.Group, o plan.Object) (run.Response, error) {
	b, try, wait, report := f.enter(o)
	time.Sleep(wait)
	broken := b.tries == 0 || try <= b.tries
	if b.refused != "" && broken {
		return run.Response{}, fmt.Errorf("%s", b.refused)
	}
	seen := run.Observation{Object: o, Status: event.Ready}
	if b.failed != "" && broken {
		seen.Status, seen.Message = event.Failed, b.failed
	}
	if b.never && broken {
		seen.Status, seen.Message = event.InProgress, "0 of 1 available"
	}
	time.AfterFunc(b.ready+time.Millisecond, func() { report(seen) })
	return run.Response{Change: cmp.Or(b.change, event.Created)}, nil
}

func (f *fakeCluster) Delete(_ context.Context, _ *plan.Group, o plan.Object) (run.Response, error) {
	b, _, wait, report := f.enter(o)
	time.Sleep(wait)
	if b.change == event.Kept {
		return run.Response{Change: event.Kept}, nil
	}
	time.AfterFunc(b.ready+time.Millisecond, func() { report(run.Observation{Object: o, Status: event.Gone}) })
	return run.Response{Change: event.Deleted}, nil
}

// readPlan reads groups from lines such as "shop/db:schema < shop/db:database: Job/migrate, Secret/db".
func readPlan(lines ...string) []*plan.Group {
	var groups []*plan.Group
	for _, l := range lines {
		head, objects, _ := strings.Cut(l, ": ")
		id, after, _ := strings.Cut(head, " < ")
		chart, name, _ := strings.Cut(id, ":")
		g := &plan.Group{ID: id, Chart: chart, Name: name, After: []string{}}
		if after != "" {
			g.After = strings.Split(after, ", ")
		}
		for _, o := range strings.Split(objects, ", ") {
			kind, name, _ := strings.Cut(o, "/")
			g.Objects = append(g.Objects, plan.Object{Kind: kind, Namespace: "shop", Name: name})
		}
		g.Waves = []plan.Wave{{Count: len(g.Objects)}}
		groups = append(groups, g)
	}
	for id, n := range plan.Layers(groups) {
		for _, g := range groups {
			if g.ID == id {
				g.Layer = n
			}
		}
	}
	return groups
}

// bench runs an operation with synthetic time.
type bench struct {
	*run.Engine
	feed *event.Feed
	from time.Time
}

func (b *bench) at(d time.Duration) { time.Sleep(time.Until(b.from.Add(d))); synctest.Wait() }

func (b *bench) command(name event.CommandName, group string) {
	b.Command(event.Command{Name: name, Group: group})
	synctest.Wait()
}

var install = event.Operation{Name: "install", Release: "shop", Namespace: "shop", Context: "kind-dev", Chart: "shop-1.0.0", Revision: 1, Timeout: 5 * time.Minute, ReadinessTimeout: time.Minute}

// record runs an operation and returns its events.
func record(t *testing.T, opts run.Options, steer func(*bench)) []event.Event {
	t.Helper()
	var events []event.Event
	synctest.Test(t, func(t *testing.T) {
		opts.Feed = &event.Feed{}
		if opts.Operation.Name == "" {
			opts.Operation = install
		}
		b := &bench{feed: opts.Feed, from: time.Now()}
		b.Engine = run.New(opts)
		steer(b)
		events = opts.Feed.Events()
		time.Sleep(time.Hour) // until the cluster has sent its last reports
	})
	return events
}

func apply(groups []*plan.Group) event.Phase {
	return event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groups}
}

func hooks(when string, groups []*plan.Group) event.Phase {
	return event.Phase{Name: when, Kind: event.PhaseHooks, Groups: groups}
}

// awaited reports whether another group waits for a group (R21).
func awaited(groups []*plan.Group) func(*plan.Group) bool {
	return func(g *plan.Group) bool {
		for _, other := range groups {
			for _, id := range other.After {
				if id == g.ID {
					return true
				}
			}
		}
		return false
	}
}

var shop = []string{
	"shop/db:config: ConfigMap/db, Secret/db",
	"shop/queue:broker: Service/queue, StatefulSet/queue",
	"shop/db:database < shop/db:config: Service/db-server, StatefulSet/db-server",
	"shop/db:schema < shop/db:config, shop/db:database: ConfigMap/ddl, Job/migrate",
	"shop/api:(unsequenced) < shop/db:config, shop/db:database, shop/db:schema, shop/queue:broker: Deployment/api",
}

func behaviours(more map[string]behaviour) map[string]behaviour {
	all := map[string]behaviour{"queue": {ready: 6 * sec}, "db-server": {ready: 4 * sec}, "migrate": {ready: 3 * sec}, "api": {ready: 2 * sec}}
	for k, v := range more {
		all[k] = v
	}
	return all
}

func diagnose(_ context.Context, o plan.Object) run.Finding {
	if o.Kind != "Job" {
		return run.Finding{}
	}
	return run.Finding{
		Cause:    `container migrate exited with code 2: FATAL: relation "orders" does not exist`,
		Evidence: []string{`FATAL: relation "orders" does not exist`, "BackoffLimitExceeded: Job has reached the specified backoff limit"},
		Details: event.Details{
			Source:     event.Source{Pod: "migrate-7x2kq", Container: "migrate"},
			Conditions: []string{"Failed is True: BackoffLimitExceeded: Job has reached the specified backoff limit"},
			Log:        []string{"applying 0042_add_index …", "\x1b[31mFATAL: relation \"orders\" does not exist\x1b[0m"},
		},
	}
}
