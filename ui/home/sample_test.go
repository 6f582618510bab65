package home

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

// The time of all samples.
var now = time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)

func init() {
	time.Local = time.UTC // goldens have local times
	pastRuns()            // it must be fast once it is asked for
}

// sample is a Source that shows nothing by itself: tests send the snapshots.
type sample struct {
	needed  []Key
	history error
	past    []PastRun // instead of pastRuns
}

func (s *sample) Follow(ctx context.Context, _ string, _ func(Snapshot)) { <-ctx.Done() }
func (s *sample) Need(releases []Key, _ Key)                             { s.needed = releases }
func (s *sample) Namespaces(context.Context) ([]string, error) {
	return []string{"data", "default", "shop"}, nil
}
func (s *sample) History(context.Context, Key) (History, error) {
	return sampleHistory{}, s.history
}

func (s *sample) PastRuns(context.Context, string) ([]PastRun, error) {
	if s.past != nil {
		return s.past, nil
	}
	return pastRuns(), nil
}

// pastRuns returns a thousand runs, some of which did not succeed.
var pastRuns = sync.OnceValue(func() (all []PastRun) {
	names := releases(10)
	for n := range 1000 {
		r := PastRun{Key: Key{"shop", names[n%10].Name}, Operation: "upgrade api-2.3.1", Context: "prod-eu", Started: now.Add(-time.Duration(n) * 5 * time.Hour),
			Took: time.Duration(n*7%100) * time.Second, Status: event.Succeeded, By: "ann on box"}
		r.Record = r.Started.Format("20060102-150405") + "-" + r.Name
		switch n % 11 {
		case 1:
			r.Status, r.Why = event.Failed, "Deployment/worker: image registry.example.com/shop/worker:0.9.0 cannot be pulled: not found"
		case 2:
			r.Operation, r.Context, r.Key = "up", "staging", Key{"", "apps"}
		case 4:
			r.Status, r.Operation, r.Why = event.Aborted, "uninstall", "aborted by ctrl-c"
		case 6:
			r.Status, r.Namespace = "cut-off", "data"
		case 8:
			r.Record, r.Cluster, r.Operation, r.Status, r.By = "", "lockstep-"+r.Name+"-x7k2p", "upgrade", "succeeded", "ci"
		}
		all = append(all, r)
	}
	all[0].Status, all[0].Why = event.Held, "migrate failed: relation users does not exist"
	return all
})

type sampleHistory struct{}

func (sampleHistory) Revisions() (all []Revision) {
	for n := 14; n > 2; n-- {
		r := Revision{Number: n, Status: "superseded", Changed: now.Add(-time.Duration(14-n)*26*time.Hour - 2*time.Hour), Record: Record{Chart: "api 2.2.0", By: "ci on runner-7"}, What: "values", Description: "Upgrade complete"}
		switch n {
		case 14:
			r.Status, r.Chart, r.What, r.Run = "deployed", "api 2.3.1", "values, objects: 1 added, 2 changed", "20261120-120000-api"
		case 13:
			r.Status, r.By, r.What, r.Description = "failed", "ann on box", "objects: 1 changed", "Upgrade \"api\" failed: Deployment/api: image cannot be pulled"
		case 10:
			r.Description = "hotfix for the checkout"
		case 12:
			r.RollbackTo, r.Description = 9, "Rollback to 9"
		}
		all = append(all, r)
	}
	return all
}

func (sampleHistory) Changes(from, to int) ([]inspect.Change, error) {
	if to-from > 5 {
		return nil, errors.New("revision 3 does not exist any more")
	}
	api := plan.Object{Group: "apps", Kind: "Deployment", Name: "api"}
	return []inspect.Change{
		{Object: plan.Object{Kind: "values", Name: "api"}, Action: inspect.Modify, Fields: []inspect.Field{{In: "image", Lines: []string{"- tag: 2.2.0", "+ tag: 2.3.1"}}}},
		{Object: api, Action: inspect.Modify, Fields: []inspect.Field{{In: "spec.template.spec.containers[api]", Lines: []string{"- image: shop/api:2.2.0", "+ image: shop/api:2.3.1"}}, {In: "spec", Lines: []string{"- replicas: 2", "+ replicas: 3"}}}},
		{Object: plan.Object{Kind: "Service", Name: "api"}, Action: inspect.Create},
	}, nil
}

// releases returns n releases in the namespaces shop and data, of which some are not healthy.
func releases(n int) (all []Release) {
	charts := []string{"api 2.3.1", "worker 0.9.0", "postgresql 16.2.1", "a-chart-with-a-long-name 10.20.30-rc.1"}
	for i := range n {
		r := Release{Key: Key{"shop", fmt.Sprintf("service-%03d", i)}, Revision: 1 + i*7%23, Status: "deployed", Changed: now.Add(-time.Duration(1+i*i) * 7 * time.Minute),
			Record: Record{Chart: charts[i%len(charts)], By: "ci on runner-7"}, Health: Health{Status: event.Ready, Ready: 3 + i%5, Of: 3 + i%5}}
		switch i {
		case 0:
			r.Name = "api"
		case 1:
			r.Name, r.By = "worker", "ann on box"
			r.Health = Health{Status: event.InProgress, Degraded: true, Ready: 1, Of: 2, Since: now.Add(-7 * time.Minute), Cause: "Deployment/worker: container main cannot start: image registry.example.com/shop/worker:0.9.0 cannot be pulled: not found"}
		case 2:
			r.Name, r.Status, r.LastRun = "pg", "failed", "upgrade aborted: paused, and nobody attached or used lockstep ctl for 5m (--timeout)"
			r.Health = Health{Status: event.InProgress, Ready: 4, Of: 5, Cause: "StatefulSet/pg: 0 of 1 replicas ready"}
		case 5:
			r.Status = "pending-upgrade"
		case 7:
			r.Status, r.Health = "uninstalled", Health{}
		case 9:
			r.Record, r.Health = Record{}, Health{} // not read yet
		}
		all = append(all, r)
	}
	return all
}

// liveRuns are runs in all states.
func liveRuns() []LiveRun {
	at := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	return []LiveRun{
		{Key: Key{"shop", "payments"}, Operation: "upgrade payments-1.5.0", Status: event.Held, Why: "migrate: Job/migrate: exited with code 3 (2 restarts): FATAL: relation users does not exist", By: "ann on box", Since: at(4), Ends: now.Add(252 * time.Second)},
		{Key: Key{"shop", "queue"}, Operation: "install queue-3.0.0", Status: event.Paused, Why: "before the first group", By: "ops@example.com", Since: at(12), Cluster: "lockstep-queue-x7z2k"},
		{Key: Key{"", "apps"}, Operation: "up", Status: event.Running, Why: "1 of 3 releases", By: "ci", Since: at(1), Cluster: "lockstep-apps-9s8d7", Parts: []Part{
			{"data/pg", event.Ready, ""}, {"shop/api", event.InProgress, "3 of 7 objects ready"}, {"shop/web", event.Waiting, "waits for shop/api"}}},
		{Key: Key{"shop", "cart"}, Operation: "upgrade", Status: Locked, Why: "not controlled from here: attach as ann on box", Elsewhere: "attach as ann on box", By: "ann on box, process 4711", Since: at(3)},
		{Key: Key{"shop", "search"}, Operation: "upgrade", Status: event.Waiting, Why: "its pod is not running yet", By: "ci", Since: at(0), Cluster: "lockstep-search-12abc"},
	}
}

// state is a moment of home, and the keys pressed then.
type state struct {
	name string
	Snapshot
	keys string
	all  bool
	// form opens forms.
	form bool
}

var states = []state{
	{name: "empty", Snapshot: Snapshot{Listed: true}, form: true},
	{name: "only-runs", Snapshot: Snapshot{Listed: true, Runs: liveRuns()}, form: true},
	{name: "no-namespace", Snapshot: Snapshot{Listed: true, NoNamespace: true}, form: true},
	{name: "three", Snapshot: Snapshot{Listed: true, Releases: releases(3)}, keys: "down", form: true},
	{name: "forty", Snapshot: Snapshot{Listed: true, Releases: releases(40)}, keys: "s", form: true},
	{name: "thousand", Snapshot: Snapshot{Listed: true, Releases: releases(1000)}, keys: "pgdown pgdown down", all: true, form: true},
	{name: "runs", Snapshot: Snapshot{Listed: true, Releases: releases(40), Runs: liveRuns()}, form: true},
	{name: "stack", Snapshot: Snapshot{Listed: true, Releases: append(releases(3), Release{Key: Key{"data", "pg"}, Status: "deployed", Revision: 2, Health: Health{Status: event.Ready, Ready: 2, Of: 2}}),
		Stacks: []Stack{{Name: "apps", Operation: "up", Status: event.Succeeded, Ended: now.Add(-3 * time.Minute), By: "ann on box", Record: "20261120-135700-apps", Members: []Key{{"data", "pg"}, {"data", "gone"}, {"shop", "api"}}}}}, form: true},
	{name: "denied", Snapshot: Snapshot{Listed: true, Releases: releases(3), Denied: map[string]map[string]string{"shop": {
		"install": "no permission to create secrets in namespace shop", "upgrade": "no permission to create and update secrets in namespace shop",
		"rollback": "no permission to create and update secrets in namespace shop", "uninstall": "no permission to delete secrets in namespace shop"}}}, keys: "u", form: true},
	{name: "away", Snapshot: Snapshot{Listed: true, Releases: releases(12), Away: "API server unreachable: connection refused; trying again"}, form: true},
	{name: "away-at-first", Snapshot: Snapshot{Away: "API server unreachable: connection refused; trying again"}, form: true},
	{name: "filter", Snapshot: Snapshot{Listed: true, Releases: releases(40), Runs: liveRuns()}, keys: "/ p a y", form: true},
	{name: "namespace", Snapshot: Snapshot{Listed: true, Releases: releases(3)}, keys: ": d", form: true},
	{name: "history", Snapshot: Snapshot{Listed: true, Releases: releases(3)}, keys: "h", form: true},
	{name: "compare", Snapshot: Snapshot{Listed: true, Releases: releases(3)}, keys: "h d down down down", form: true},
	{name: "past", Snapshot: Snapshot{Listed: true, Releases: releases(3)}, keys: "P down", form: true},
	{name: "past-filter", Snapshot: Snapshot{Listed: true, Releases: releases(3)}, keys: "P / f a i l e d enter end", form: true},
	{name: "help", Snapshot: Snapshot{Listed: true, Releases: releases(3)}, keys: "?", form: true},
}

// open opens home in a state.
func (s state) open(t testing.TB, w, h int, look theme.Options, change ...func(*Options)) *rig {
	o := Options{Source: &sample{}, State: &State{Namespace: "shop", All: s.all}, Context: "prod-eu", Theme: look, Now: func() time.Time { return now }}
	if s.form {
		o.Form = func(*screen.Screen, Request, func([]string) tea.Cmd) keys.Mode { return nil }
	}
	for _, c := range change {
		c(&o)
	}
	r := &rig{t: t, model: newModel(t.Context(), o), source: o.Source.(*sample)}
	t.Cleanup(func() { r.stop() })
	r.send(tea.WindowSizeMsg{Width: w, Height: h})
	r.send(snapshotMsg{s.Snapshot, r.number})
	for _, key := range strings.Fields(s.keys) {
		r.press(key)
	}
	return r
}

// rig is home in a test. It runs the commands that answer at once.
type rig struct {
	*model
	t      testing.TB
	source *sample
}

func (r *rig) send(msg tea.Msg) {
	_, cmd := r.Update(msg)
	if _, follows := msg.(snapshotMsg); !follows {
		r.run(cmd)
	}
}

// run runs a command unless it waits.
func (r *rig) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	answer := make(chan tea.Msg, 1)
	go func() { answer <- cmd() }()
	for {
		select {
		case msg := <-answer:
			switch msg := msg.(type) {
			case tea.BatchMsg:
				for _, c := range msg {
					r.run(c)
				}
			case historyMsg, namespacesMsg, pastMsg:
				r.send(msg)
			}
			return
		case <-time.After(20 * time.Millisecond):
			if !r.reading() { // a tick, or the next snapshot
				return
			}
		}
	}
}

// reading reports whether the open mode waits for an answer of the source.
func (r *rig) reading() bool {
	switch m := r.Modes.Top().(type) {
	case *past:
		return !m.read
	case *history:
		return m.content == nil && m.err == nil
	}
	return false
}

// special are the keys that are not a character.
var special = map[string]rune{"up": tea.KeyUp, "down": tea.KeyDown, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp,
	"home": tea.KeyHome, "end": tea.KeyEnd, "space": tea.KeySpace, "tab": tea.KeyTab}

func (r *rig) press(key string) {
	if code, ok := special[key]; ok {
		r.send(tea.KeyPressMsg{Code: code})
		return
	}
	for _, c := range key {
		r.send(tea.KeyPressMsg{Code: c, Text: string(c)})
	}
}

// text returns the frame without colours.
func (r *rig) text() string { return ansi.Strip(r.View().Content) }
