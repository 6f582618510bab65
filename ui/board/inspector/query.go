package inspector

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/ui/board/canvas"
)

// result is the answer of the cluster that the open tab shows.
type result struct {
	busy bool
	text []string // cleaned
	pods []Pod    // of the pods tab
	note string   // why there is no answer
	logs logBook
}

const (
	notConnected = "not connected to the cluster"
	noAnswer     = "nothing here"

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

// Turn queries again after another object was selected.
func (i *Inspector) Turn() tea.Cmd {
	about, ok := i.Item()
	if !i.Shown || i.Tab.queries() && ok && about == i.about {
		return nil
	}
	return i.query()
}

// query resets the open tab and starts its query.
func (i *Inspector) query() tea.Cmd {
	i.Stop()
	i.N++
	i.Page = pageOf{End: i.Tab == TabLogs}
	i.result = result{}
	i.search.at = -1
	var ok bool
	i.about, ok = i.Item()
	switch {
	case !i.Tab.queries() || !ok:
		return nil
	case i.answers == nil:
		i.note = notConnected
		return nil
	}
	i.busy = true
	return i.load()
}

// Loading reports whether the open tab must be refreshed.
func (i *Inspector) Loading() bool {
	return i.Shown && i.answers != nil && (i.Tab == TabEvents || i.Tab == TabPods)
}

// Refresh repeats the query if its answer is older than refreshEvery.
func (i *Inspector) Refresh() tea.Cmd {
	if !i.Loading() || i.busy || time.Since(i.asked) < refreshEvery {
		return nil
	}
	return i.again()
}

// again repeats the query of the open tab. It keeps the scroll position.
func (i *Inspector) again() tea.Cmd {
	if !i.Shown || i.answers == nil || !i.Tab.queries() || i.about == (Item{}) {
		return nil
	}
	i.N++
	return i.load()
}

// LoadedMsg is the answer to query N.
type LoadedMsg struct {
	N    int
	Text []string
	Pods []Pod
	err  error
}

func (i *Inspector) load() tea.Cmd {
	answers, n, tab, live, it := i.answers, i.N, i.Tab, i.Live, i.about
	i.Stop()
	i.asked = time.Now()
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
			m.Text, m.err = answers.Events(ctx, it.Object)
		case TabPods:
			m.Pods, m.err = answers.Pods(ctx, it.Object)
		case TabManifest:
			var manifest string
			if live {
				manifest, m.err = answers.Live(ctx, it.Object)
			} else {
				manifest, m.err = answers.Sent(ctx, it)
			}
			m.Text = strings.Split(maskSecrets(it.Object, strings.TrimRight(manifest, "\n")), "\n")
		}
		return m
	}
}

// loaded stores an answer, unless another query followed.
func (i *Inspector) loaded(m LoadedMsg) {
	if m.N != i.N {
		return
	}
	i.result = result{text: cleanLines(m.Text), pods: cleanPods(m.Pods)}
	if len(i.pods) == 0 && (len(i.text) == 0 || len(i.text) == 1 && i.text[0] == "") {
		i.text, i.note = nil, noAnswer
	}
	if m.err != nil {
		i.note = explain("lookup failed", m.err)
	}
}

func cleanPods(pods []Pod) (out []Pod) {
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
		for s := range strings.SplitSeq(strings.TrimRight(l, "\r\n"), "\n") {
			out = append(out, canvas.Clean(s))
		}
	}
	return out
}
