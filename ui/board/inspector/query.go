package inspector

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/text"
	"lockstep/ui/board/canvas"
)

// result is the answer from the cluster that the open tab shows.
type result struct {
	busy bool
	text []string // cleaned
	// events are those of the events tab, cleaned.
	events []event.ClusterEvent
	pods   []inspect.Pod // of the pods tab
	note   string        // why there is no answer, or that the logs have ended
	logs   logBook
}

const (
	notConnected = "not connected to the cluster"
	noResult     = "nothing to show"
	noPodsYet    = "no pods yet"

	queryTimeout = 15 * time.Second
	refreshEvery = 3 * time.Second // for events and pods
)

// Stop cancels the query of the open tab.
func (i *Inspector) Stop() {
	if i.cancel != nil {
		i.cancel()
		i.cancel = nil
	}
}

// SelectionChanged repeats the query of the open tab for another object.
func (i *Inspector) SelectionChanged() tea.Cmd {
	it, ok := i.Item()
	if !i.Shown || i.Tab.queries() && ok && it == i.queried {
		return nil
	}
	return i.query()
}

// query resets the open tab and starts its query.
func (i *Inspector) query() tea.Cmd {
	i.Stop()
	i.N++
	i.Page = scrollState{End: i.Tab == TabLogs}
	i.result = result{}
	i.search.at = -1
	var ok bool
	i.queried, ok = i.Item()
	switch {
	case !i.Tab.queries() || !ok || i.isStep():
		return nil
	case i.cluster == nil:
		i.note = notConnected
		return nil
	}
	i.busy = true
	if i.Tab == TabLogs {
		i.logs.only = i.atFault()
	}
	return i.load()
}

// isStep reports whether the selected group runs a program on the machine of lockstep: nothing of it is in the cluster.
func (i *Inspector) isStep() bool {
	n := i.Group()
	return n != nil && n.Step != nil
}

// atFault returns the container that keeps the target from becoming ready, empty if none is known.
func (i *Inspector) atFault() event.Source {
	o := i.TargetObject()
	if o == nil || o.Done() || o.Details == nil {
		return event.Source{}
	}
	return event.Source{Pod: o.Details.Pod, Container: o.Details.Container}
}

// Refreshes reports whether the open tab is refreshed regularly.
func (i *Inspector) Refreshes() bool {
	return i.Shown && i.cluster != nil && (i.Tab == TabEvents || i.Tab == TabPods)
}

// Refresh repeats the query if its answer is older than refreshEvery.
func (i *Inspector) Refresh() tea.Cmd {
	if !i.Refreshes() || i.busy || time.Since(i.queriedAt) < refreshEvery {
		return nil
	}
	return i.reload()
}

// reload repeats the query of the open tab. It keeps the scroll position.
func (i *Inspector) reload() tea.Cmd {
	if !i.Shown || i.cluster == nil || !i.Tab.queries() || i.queried == (inspect.Item{}) {
		return nil
	}
	i.N++
	return i.load()
}

// LoadedMsg is the answer to query N.
type LoadedMsg struct {
	N      int
	Text   []string
	Events []event.ClusterEvent
	Pods   []inspect.Pod
	err    error
}

func (i *Inspector) load() tea.Cmd {
	cluster, n, tab, live, it := i.cluster, i.N, i.Tab, i.Live, i.queried
	i.Stop()
	i.queriedAt = time.Now()
	if tab == TabLogs {
		return i.followLogs()
	}
	ctx, cancel := context.WithTimeout(i.ctx, queryTimeout)
	i.cancel = cancel
	return func() tea.Msg {
		defer cancel()
		m := LoadedMsg{N: n}
		switch tab {
		case TabEvents:
			m.Events, m.err = cluster.Events(ctx, it.Object)
		case TabPods:
			m.Pods, m.err = cluster.Pods(ctx, it.Object)
		case TabManifest:
			var manifest string
			if live {
				manifest, m.err = cluster.Live(ctx, it.Object)
			} else {
				manifest, m.err = cluster.Sent(ctx, it)
			}
			m.Text = text.Lines(manifest)
		}
		return m
	}
}

// loaded stores an answer, unless another query followed.
func (i *Inspector) loaded(m LoadedMsg) {
	if m.N != i.N {
		return
	}
	i.result = result{text: cleanLines(m.Text), events: cleanEvents(m.Events), pods: cleanPods(m.Pods)}
	if len(i.pods)+len(i.events) == 0 && (len(i.text) == 0 || len(i.text) == 1 && i.text[0] == "") {
		if i.text, i.note = nil, noResult; i.Tab == TabPods {
			i.note = noPodsYet
		}
	}
	if m.err != nil {
		i.note = explain("lookup failed", m.err)
	}
}

func cleanEvents(events []event.ClusterEvent) (out []event.ClusterEvent) {
	for _, e := range events {
		e.Object, e.Reason, e.Message = canvas.Clean(e.Object), canvas.Clean(e.Reason), canvas.Clean(e.Message)
		out = append(out, e)
	}
	return out
}

func cleanPods(pods []inspect.Pod) (out []inspect.Pod) {
	for _, p := range pods {
		for _, text := range []*string{&p.Name, &p.Ready, &p.Restarts, &p.Node, &p.Phase, &p.Why} {
			*text = canvas.Clean(*text)
		}
		out = append(out, p)
	}
	return out
}

func cleanLines(lines []string) (out []string) {
	for _, l := range lines {
		for _, s := range text.Lines(l) {
			out = append(out, canvas.Clean(s))
		}
	}
	return out
}

// explain returns the text of an inspect.Unavailable, or "failed: err" for other errors.
func explain(failed string, err error) string {
	if why := inspect.Unavailable(""); errors.As(err, &why) {
		return string(why)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return failed + ": no answer within " + canvas.Span(queryTimeout)
	}
	return failed + ": " + err.Error()
}
