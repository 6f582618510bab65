package board

import (
	"fmt"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/ui/board/inspector"
)

// answered sets an inspector with changes to the objects of the recorded runs.
func answered(o *Options) {
	o.Inspector = &answerer{
		manifest: "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: shop-db-migrate\nspec:\n  backoffLimit: 2\n",
		changes:  changesOfShop, logs: logsOfShop, pods: podsOfShop, now: o.Now,
	}
}

var changesOfShop = map[string]inspect.Change{
	"Job/shop-db-migrate-1-0-0": {Action: inspect.Modify, Fields: []inspect.Field{
		{In: "metadata.annotations", Lines: []string{"+checksum/config: 5d41402abc4b2a76b9719d911017c592"}},
		{In: "spec.template.spec.containers[migrate]", Lines: []string{"-image: example/migrate:1.4", "+image: example/migrate:1.5"}},
		{In: "spec.template.spec.containers[migrate]", Lines: []string{"-resources:", "-  limits:", "-    memory: 64Mi"}},
		{In: "spec.template.spec.containers[migrate].args", Lines: []string{" - --wait", "-- --to=41", "+- --to=42"}},
	}},
	"ConfigMap/shop-db-migrations": {Action: inspect.Modify, Fields: []inspect.Field{
		{In: "data[0042.sql]", Lines: []string{"@line 12", " CREATE TABLE orders (", "-  id int,", "+  id bigint,", "   customer int"}},
	}},
	"Deployment/shop-api": {Action: inspect.Modify, Fields: []inspect.Field{
		{In: "spec.template.spec.containers[api]", Lines: []string{"-image: example/api:2.0", "+image: example/no-such-image:1"}},
	}},
	"Service/shop-api": {Action: inspect.Unchanged},
}

// diffing opens the diff of the group at the breakpoint.
func diffing(t testing.TB, changes map[string]inspect.Change) (*rig, *answerer) {
	c := &answerer{changes: changes, manifest: "kind: Job"}
	s := newScreen(t, 120, 40, recorded(t, "sandbox-breakpoint", 0), func(o *Options) { o.Inspector = c })
	s.press("enter")
	return s, c
}

// of returns the same change for all objects of the selected group.
func of(s *rig, c inspect.Change) map[string]inspect.Change {
	out := map[string]inspect.Change{}
	for _, o := range s.Group().Objects {
		out[o.Object.String()] = c
	}
	return out
}

// TestInspectorOpensOnDiff: the inspector of a group that has not started opens on the diff, any other
// on why.
func TestInspectorOpensOnDiff(t *testing.T) { inBubble(t, testInspectorOpensOnDiff) }

func testInspectorOpensOnDiff(t *testing.T) {
	s, _ := diffing(t, nil)
	if s.insp.Tab != inspector.TabDiff {
		t.Errorf("a group at a breakpoint opened on %s", inspector.TabNames[s.insp.Tab])
	}
	s.press("esc", "home", "enter")
	if s.insp.Tab != inspector.TabWhy {
		t.Errorf("a ready group opened on %s", inspector.TabNames[s.insp.Tab])
	}
}

// TestChangesAreQueriedOnce: a change is queried when it is shown, and again only after the object
// changed or the user refreshed.
func TestChangesAreQueriedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, c := diffing(t, nil)
		n := int32(len(s.Group().Objects))
		asked := func(what string, want int32) {
			t.Helper()
			s.settle()
			if got := c.asked.Load(); got != want {
				t.Errorf("%s: %d queries, want %d", what, got, want)
			}
			c.asked.Store(0)
		}
		asked("opened", n)
		s.press("y", "d")
		asked("after another tab", 0)
		s.press("esc", "enter")
		asked("opened again", 0)
		s.press("down", ")")
		asked("one of its objects", 0)
		s.press("d")
		asked("refreshed", 1)
		g := s.Group()
		o := *s.Object()
		s.send(batchMsg{events: []event.Event{{Kind: event.KindObject, Phase: g.Phase, Group: g.ID, Object: &o.Object, Status: event.Applying, Time: s.State.Now}}, more: true})
		asked("being applied", 0)
		s.shows(t, "being applied")
		s.send(batchMsg{events: []event.Event{{Kind: event.KindObject, Phase: g.Phase, Group: g.ID, Object: &o.Object, Status: event.Deleting, Time: s.State.Now}}, more: true})
		asked("being deleted", 0)
		s.shows(t, "being deleted")
		s.send(batchMsg{events: []event.Event{{Kind: event.KindObject, Phase: g.Phase, Group: g.ID, Object: &o.Object, Status: event.Ready, Change: event.Configured, Time: s.State.Now}}, more: true})
		asked("applied", 1)
	})
}

// TestProvisionalChangesAreQueriedAgain: a change that needed an earlier group is queried again when a
// group finishes.
func TestProvisionalChangesAreQueriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := diffing(t, nil)
		later := of(s, inspect.Change{Action: inspect.Later, Message: "namespace later does not exist yet"})
		s, c := diffing(t, later)
		s.shows(t, "2 objects: 2 cannot be compared yet (namespace later does not exist yet)", "job/shop-db-migrate-1-0-0  cannot be compared yet\n")
		c.asked.Store(0)
		s.send(batchMsg{events: []event.Event{{Kind: event.KindWaiting, Time: s.State.Now}}, more: true})
		s.settle()
		if n := c.asked.Load(); n != 0 {
			t.Errorf("%d queries, although nothing changed", n)
		}
		for _, n := range s.Graph.Nodes {
			if n.Status == event.Waiting {
				s.send(batchMsg{events: []event.Event{{Kind: event.KindGroup, Phase: n.Phase, Group: n.ID, Status: event.Ready, Time: s.State.Now}}, more: true})
				break
			}
		}
		s.settle()
		if n := c.asked.Load(); n == 0 {
			t.Error("the change was not queried again")
		}
	})
}

// TestChangeTexts checks the text of each change, before and after the object was applied.
func TestChangeTexts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		one := []inspect.Field{{In: "spec", Lines: []string{"-replicas: 1", "+replicas: 2"}}}
		for _, test := range []struct {
			change inspect.Change
			done   event.Change
			want   string
		}{
			{inspect.Change{Action: inspect.Create}, "", "will be created"},
			{inspect.Change{Action: inspect.Modify, Fields: one}, "", "1 field"},
			{inspect.Change{Action: inspect.Unchanged}, "", "unchanged"},
			{inspect.Change{Action: inspect.Delete}, "", "will be deleted"},
			{inspect.Change{Action: inspect.Keep, Message: "helm.sh/resource-policy: keep"}, "", "2 objects: 2 kept (helm.sh/resource-policy: keep)"},
			{inspect.Change{Action: inspect.Hook, Message: "recreated"}, "", "2 objects: 2 to run (recreated)"},
			{inspect.Change{Action: inspect.Refuse, Message: "spec.selector: field is immutable"}, "", "2 objects: 2 refused (spec.selector: field is immutable)"},
			{inspect.Change{Action: inspect.Unchanged}, event.Created, "created by this run, unchanged since"},
			{inspect.Change{Action: inspect.Modify, Fields: one}, event.Configured, "changed by this run, modified since; another apply would revert 1 field"},
			{inspect.Change{Action: inspect.Modify}, event.Configured, "changed by this run, modified since; another apply would revert it"},
			{inspect.Change{Action: inspect.Create}, event.Created, "created by this run, now gone; another apply would recreate it"},
		} {
			s, c := diffing(t, nil)
			c.changes = of(s, test.change)
			g := s.Group()
			for _, o := range g.Objects {
				for _, done := range []event.Change{test.done, event.Unchanged} { // a retry changes nothing
					if test.done != "" {
						s.feed(event.Event{Kind: event.KindObject, Phase: g.Phase, Group: g.ID, Object: &o.Object, Status: o.Status, Change: done, Time: s.State.Now})
					}
				}
			}
			s.press("d")
			s.settle()
			s.shows(t, test.want)
			if len(test.change.Fields) > 0 {
				s.shows(t, "    spec\n", "    - replicas: 1", "    + replicas: 2")
			}
		}
	})
}

// TestDiffHead counts the changes to the objects of a group.
func TestDiffHead(t *testing.T) { inBubble(t, testDiffHead) }

func testDiffHead(t *testing.T) {
	s, c := diffing(t, nil)
	objects := s.Group().Objects
	c.changes = map[string]inspect.Change{}
	for n, o := range objects {
		c.changes[o.Object.String()] = inspect.Change{Action: []inspect.Action{inspect.Create, inspect.Modify, inspect.Unchanged}[n%3]}
	}
	s.press("d")
	s.settle()
	s.shows(t, "2 objects: 1 to create, 1 to change")
}

// TestLargeGroupIsComparedInPart limits the requests for a large group.
func TestLargeGroupIsComparedInPart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &answerer{changes: map[string]inspect.Change{}}
		s := newScreen(t, 120, 40, nil, func(o *Options) { o.Inspector = c })
		events := large(10_000)
		phase := &events[1].Phases[0]
		for n := range 300 {
			phase.Groups[299].Objects = append(phase.Groups[299].Objects, plan.Object{Kind: "ConfigMap", Name: fmt.Sprintf("more-%d", n)})
		}
		s.Update(batchMsg{events: events, more: true})
		s.press("end", "enter")
		for range 40 {
			s.settle()
		}
		if n := c.asked.Load(); n != 200 {
			t.Errorf("%d queries, want 200", n)
		}
		s.press("end")
		s.shows(t, "more; select one for details")
	})
}

// TestKeysAreUnique: within each table, an active key has only one binding.
func TestKeysAreUnique(t *testing.T) {
	for _, table := range tables() {
		seen := map[string]string{}
		for _, b := range table {
			for k := range strings.FieldsSeq(b.Keys) {
				if seen[k] != "" {
					t.Errorf("%q is %q and %q", k, seen[k], b.About)
				}
				seen[k] = b.About
			}
		}
	}
}

// TestDiffOfHook: a hook will run, has started, and has run.
func TestDiffOfHook(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		hook := map[string]inspect.Change{"Job/shop-smoke-test": {Action: inspect.Hook, Message: "any previous Job is deleted first"},
			"Job/shop-preflight": {Action: inspect.Hook, Message: "any previous Job is deleted first"}}
		s, _ := diffing(t, hook)
		press := func(keys ...string) {
			for _, key := range keys {
				s.settle()
				s.press(key)
			}
			s.settle()
		}
		press("esc", "end", "d")
		s.shows(t, "job/shop-smoke-test  will run: any previous Job is deleted first")
		s.showsNot(t, "1 object: ")
		press("esc", "home", "right", "d")
		s.shows(t, "job/shop-preflight  has run\n")
		n := s.Group()
		s.send(batchMsg{events: []event.Event{{Kind: event.KindObject, Phase: n.Phase, Group: n.ID, Object: &n.Objects[0].Object, Status: event.InProgress, Time: s.State.Now}}, more: true})
		s.settle()
		s.shows(t, "job/shop-preflight  has started\n")
	})
}

// TestDiffAfterApply: the diff of an object that was looked at before it was applied stays on the screen afterwards.
func TestDiffAfterApply(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, c := diffing(t, map[string]inspect.Change{"Job/shop-db-migrate-1-0-0": changesOfShop["Job/shop-db-migrate-1-0-0"]})
		s.settle()
		s.shows(t, "+ image: example/migrate:1.5")
		c.changes = map[string]inspect.Change{"Job/shop-db-migrate-1-0-0": {Action: inspect.Unchanged}}
		g := s.Group()
		o := plan.Object{Group: "batch", Kind: "Job", Namespace: "shop", Name: "shop-db-migrate-1-0-0"}
		events := []event.Event{
			{Kind: event.KindRun, Status: event.Running},
			{Kind: event.KindGroup, Phase: g.Phase, Group: g.ID, Status: event.Running},
			{Kind: event.KindObject, Phase: g.Phase, Group: g.ID, Object: &o, Status: event.Ready, Change: event.Configured},
		}
		for i := range events {
			events[i].Time = s.State.Now
		}
		s.feed(events...)
		s.settle()
		s.shows(t, "changed by this run, unchanged since", "- image: example/migrate:1.4", "+ image: example/migrate:1.5")
	})
}

// TestDiffSeenFirstAfterApply: the diff of an object that this run has changed shows what changed, although nobody looked before;
// that of an object that the run left as it was shows nothing.
func TestDiffSeenFirstAfterApply(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		unchanged := func(line string) inspect.Change {
			return inspect.Change{Action: inspect.Unchanged, Fields: []inspect.Field{{In: "spec", Lines: []string{line}}}}
		}
		s := with("sandbox-upgrade", 0, "", func(o *Options) {
			o.Inspector = &answerer{changes: map[string]inspect.Change{"Deployment/shop-api": unchanged("+replicas: 2"), "Service/shop-api": unchanged("+port: 2")}}
		})(t)
		for _, g := range s.Graph.Nodes {
			if g.Name == "api:server" {
				s.Sel.Unit = g.Unit()
			}
		}
		s.press("d")
		s.settle()
		s.shows(t, "changed by this run, unchanged since", "+ replicas: 2")
		s.showsNot(t, "port: 2")
	})
}

// TestEditIsCompared: once an edited revision starts, the objects are compared again: it may change what was unchanged before.
func TestEditIsCompared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, c := diffing(t, nil)
		c.changes = of(s, inspect.Change{Action: inspect.Unchanged})
		s.press("d")
		s.settle()
		s.shows(t, "unchanged")
		c.changes = of(s, inspect.Change{Action: inspect.Modify, Fields: []inspect.Field{{In: "spec.hard", Lines: []string{"-pods: 2", "+pods: 10"}}}})
		var phases []event.Phase
		for _, p := range s.State.Phases {
			phase := event.Phase{Name: p.Name, Kind: p.Kind}
			for _, g := range p.Groups {
				phase.Groups = append(phase.Groups, g.Group)
			}
			phases = append(phases, phase)
		}
		op := s.State.Operation
		s.feed(event.Event{Kind: event.KindRun, Status: event.Replacing, Time: s.State.Now}, event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &op, Time: s.State.Now},
			event.Event{Kind: event.KindPlan, Phases: phases, Time: s.State.Now})
		s.settle()
		s.shows(t, "pods: 10")
	})
}
