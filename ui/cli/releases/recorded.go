package releases

import (
	"context"
	"slices"
	"sync"
	"time"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/ui/report/format"
)

// recorded is the ChangeSource of a watched release: how the cluster differs from the record (S18).
type recorded struct {
	*kube.View
	client  *kube.Client
	release kube.ReleaseKey
	earlier bool // another revision than the latest may be watched

	mu    sync.Mutex
	found inspect.Drift
	err   error
	at    time.Time // of the comparison
}

// maxComparedAge is how old a comparison may be: a release is compared as a whole, and the screen asks for each object.
const maxComparedAge = time.Second

// compare compares the release with the cluster, unless it has just done so.
func (r *recorded) compare(ctx context.Context) (inspect.Drift, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < maxComparedAge {
		return r.found, r.err
	}
	found, err := r.client.Drift(ctx, []kube.ReleaseKey{r.release})
	if r.err = err; err == nil {
		r.found = found[0]
	}
	r.at = time.Now()
	return r.found, r.err
}

// Change says how the cluster differs from the record of an object.
func (r *recorded) Change(ctx context.Context, it inspect.Item) (inspect.Change, error) {
	if r.earlier {
		return inspect.Change{}, inspect.Unavailable("only the latest revision is compared with the cluster")
	}
	d, err := r.compare(ctx)
	switch {
	case err != nil:
		return inspect.Change{}, err
	case d.Error != "":
		return inspect.Change{}, inspect.Unavailable(d.Error)
	case !slices.Contains(d.Compared, it.Object):
		return inspect.Change{}, inspect.Unavailable("the record of the latest revision does not have this object")
	}
	i := slices.IndexFunc(d.Objects, func(o inspect.DriftedObject) bool { return o.Object == it.Object })
	if i < 0 {
		return inspect.Change{Object: it.Object, Action: inspect.Unchanged}, nil
	}
	if o := d.Objects[i]; o.Unread == "" {
		return drifted(it.Object, o), nil
	}
	return inspect.Change{}, inspect.Unavailable("not compared: " + d.Objects[i].Unread)
}

// drifted returns a drift as a change: from what the record has to what the cluster has.
func drifted(object plan.Object, o inspect.DriftedObject) inspect.Change {
	c := inspect.Change{Object: object, Action: inspect.Drifted, Message: o.Message}
	if o.Gone {
		c.Action = inspect.Absent
		return c
	}
	for _, f := range o.Fields {
		from, to := format.DriftedValues(f)
		lines := []string{"-" + from}
		if !f.Gone {
			lines = append(lines, "+"+to)
		}
		c.Fields = append(c.Fields, inspect.Field{In: f.Field + format.DriftAuthor(f), Lines: lines})
	}
	return c
}
