package board

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/ui/board/graph"
)

// releaseChanges compares the releases of a stack with the cluster: the change of a release is those of its objects.
type releaseChanges struct {
	inspect.Cluster
	release func(scope string) (inspect.Cluster, []string)

	mu    sync.Mutex
	items map[string][]inspect.Item // by Event.Scope
}

// announce notes the objects of a release.
func (c *releaseChanges) announce(scope string, phases []event.Phase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range phases {
		c.items[scope] = slices.DeleteFunc(c.items[scope], func(it inspect.Item) bool { return it.Phase == p.Name })
		for _, g := range p.Groups {
			for _, o := range g.Objects {
				c.items[scope] = append(c.items[scope], inspect.Item{Unit: event.Unit{Phase: p.Name, Group: g.ID}, Kind: p.Kind, Object: o})
			}
		}
	}
}

func (c *releaseChanges) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.items)
}

// parallelChanges limits the requests for the change of a release.
const parallelChanges = 8

// Change returns the changes to all objects of a release, with their fields.
func (c *releaseChanges) Change(ctx context.Context, it inspect.Item) (inspect.Change, error) {
	c.mu.Lock()
	items := c.items[it.Group]
	c.mu.Unlock()
	cluster, _ := c.release(it.Group)
	if len(items) == 0 || cluster == nil {
		return inspect.Change{}, inspect.Unavailable("nothing to do")
	}
	changes, errs := make([]inspect.Change, len(items)), make([]error, len(items))
	var queries sync.WaitGroup
	for from := range min(parallelChanges, len(items)) {
		queries.Go(func() {
			for n := from; n < len(items); n += parallelChanges {
				changes[n], errs[n] = cluster.Change(ctx, items[n])
			}
		})
	}
	queries.Wait()
	return sumOf(it, items, changes, errs), nil
}

// changeWords are the words for actions in the change of a release, in order.
var changeWords = []struct {
	action inspect.Action
	count  string // after a number
	object string // after an object's name; "" if it is not listed
}{
	{inspect.Refuse, "refused", "would be refused"}, {inspect.Create, "to create", "will be created"}, {inspect.Modify, "to change", "will change"},
	{inspect.Replace, "to replace", "will be replaced"}, {inspect.Delete, "to delete", "will be deleted"}, {inspect.Hook, "to run", "will run"}, {inspect.Keep, "kept", ""},
	{inspect.Later, "cannot be compared yet", "cannot be compared yet"}, {inspect.Unchanged, "unchanged", ""}, {inspect.Absent, "already gone", ""}, {"", "unknown", ""},
}

// sumOf joins the changes of a release's objects: how many there are of each kind, and below it the objects with their fields.
func sumOf(it inspect.Item, items []inspect.Item, changes []inspect.Change, errs []error) inspect.Change {
	sum := inspect.Change{Phase: it.Phase, Group: it.Group, Object: it.Object}
	var counts []string
	for _, w := range changeWords {
		n := 0
		for i, change := range changes {
			if errs[i] != nil {
				change.Action = ""
			}
			if change.Action != w.action {
				continue
			}
			n++
			if w.object == "" {
				continue
			}
			head := inspect.Field{In: graph.ShortObject(items[i].Object) + " " + w.object}
			if change.Message != "" {
				head.In += ": " + change.Message
			}
			sum.Fields = append(sum.Fields, head)
			for _, f := range change.Fields {
				f.In = "  " + f.In
				sum.Fields = append(sum.Fields, f)
			}
		}
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, w.count))
		}
	}
	sum.Action = inspect.Action(strings.Join(counts, ", "))
	return sum
}
