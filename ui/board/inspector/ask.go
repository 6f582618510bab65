// Package inspector shows one group or object: why it has its status, its gates and
// timings, and, from the cluster, its diff, manifest, events, pods and logs. Its central
// types are Region, the part of the screen, Subject, the selection, and Answers, the
// interface to the cluster.
package inspector

import (
	"context"
	"errors"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/board/canvas"
)

// Answers looks up objects in the cluster. Its methods run in separate goroutines and
// must return soon after ctx ends. They may return any text: the screen cleans it, and
// masks the values of Secrets again.
type Answers interface {
	Foresight
	// Events returns the object's events, and those of what it owns, oldest
	// first, one per line; none of an earlier object of the same name.
	Events(ctx context.Context, o plan.Object) ([]string, error)
	// Pods returns the object's pods, the one with the most trouble first, or
	// Nothing.
	Pods(ctx context.Context, o plan.Object) ([]Pod, error)
	// Logs calls follow with each line of the logs of all containers of the object's
	// pods, including containers that start later. It returns when ctx ends or no log
	// can follow. follow does not block and is safe for concurrent use.
	Logs(ctx context.Context, o plan.Object, follow func(LogLine)) error
	// Live returns the object as it is in the cluster, as YAML, or Nothing.
	Live(ctx context.Context, o plan.Object) (string, error)
}

// Foresight returns the changes that a run makes to objects.
type Foresight interface {
	// Change compares an object of the run with the cluster, or returns Nothing.
	Change(ctx context.Context, it Item) (Change, error)
	// Sent returns the object as the run sends it, as YAML, or Nothing.
	Sent(ctx context.Context, it Item) (string, error)
}

// Item is an object with its place in the plan.
type Item struct {
	event.Unit
	Kind   event.PhaseKind // of the unit's phase
	Object plan.Object
}

// Nothing is an error that says why there is no answer; it is not a failure.
type Nothing string

func (n Nothing) Error() string { return string(n) }

// Tab is a page of the inspector.
type Tab int

const (
	TabWhy Tab = iota
	TabDiff
	TabManifest
	TabEvents
	TabPods
	TabLogs
	TabGates
	TabTimings
	Tabs
)

var TabNames = [Tabs]string{"why", "diff", "manifest", "events", "pods", "logs", "gates", "timings"}

// queries reports whether the tab shows the result of one query to the cluster.
func (t Tab) queries() bool {
	return t == TabEvents || t == TabPods || t == TabLogs || t == TabManifest
}

// Inspector is the open inspector.
type Inspector struct {
	ctx     context.Context
	answers Answers // nil: not connected
	changes *Changes
	Tab     Tab
	Live    bool // show the manifest of the object in the cluster
	Cut     bool // cut long lines instead of wrapping them
	Times   bool // show the timestamps of log lines
	Page    pageOf
	about   Item // the object of the query
	N       int  // number of the query, to drop late answers
	cancel  context.CancelFunc
	busy    bool
	asked   time.Time
	text    []string // the answer, cleaned
	pods    []Pod    // the answer of the pods tab
	note    string   // why there is no answer
	tail    *logTail
	logs    logBook
	search  search
}

// pageOf is the position of a scrolled text.
type pageOf struct {
	Top, Last int
	End       bool // follows the end of the text
}

func (i *Inspector) Scroll(by int) {
	i.Page.Top = min(max(i.Page.Top+by, 0), i.Page.Last)
	i.Page.End = i.Tab == TabLogs && i.Page.Top == i.Page.Last
}

// New opens the inspector. Its queries end with ctx; changes outlive it.
func New(ctx context.Context, answers Answers, changes *Changes) *Inspector {
	return &Inspector{ctx: ctx, answers: answers, changes: changes}
}

// Stop cancels the query of the open tab.
func (i *Inspector) Stop() {
	if i.cancel != nil {
		i.cancel()
		i.cancel = nil
	}
}

// Open opens a tab about an object, if ok.
func (i *Inspector) Open(t Tab, about Item, ok bool) tea.Cmd {
	i.Tab = t
	return i.query(about, ok)
}

// Turn queries again if another object is selected.
func (i *Inspector) Turn(about Item, ok bool) tea.Cmd {
	if i.Tab.queries() && ok && about == i.about {
		return nil
	}
	return i.query(about, ok)
}

// Loading reports whether the open tab must be refreshed.
func (i *Inspector) Loading() bool {
	return i.answers != nil && (i.Tab == TabEvents || i.Tab == TabPods)
}

// refreshEvery is how often events and pods are refreshed.
const refreshEvery = 3 * time.Second

// Refresh repeats the query if its answer is older than refreshEvery.
func (i *Inspector) Refresh() tea.Cmd {
	if !i.Loading() || i.busy || time.Since(i.asked) < refreshEvery {
		return nil
	}
	i.N++
	return i.load(i.Tab, i.about)
}

// query resets the tab and starts its query.
func (i *Inspector) query(about Item, ok bool) tea.Cmd {
	i.Stop()
	i.N++
	i.Page = pageOf{End: i.Tab == TabLogs}
	i.text, i.pods, i.note, i.busy, i.tail, i.logs = nil, nil, "", false, nil, logBook{}
	i.search.at = -1
	i.about = about
	switch {
	case !i.Tab.queries() || !ok:
		return nil
	case i.answers == nil:
		i.note = notConnected
		return nil
	}
	i.busy = true
	return i.load(i.Tab, about)
}

// Again repeats the query of the open tab for another moment of a replay. It keeps the
// scroll position.
func (i *Inspector) Again() tea.Cmd {
	if i.answers == nil || !i.Tab.queries() || i.about == (Item{}) {
		return nil
	}
	i.N++
	if i.Tab == TabLogs {
		i.text = nil
	}
	return i.load(i.Tab, i.about)
}

// LoadedMsg is the answer to query N.
type LoadedMsg struct {
	N    int
	Text []string
	Pods []Pod
	err  error
}

const notConnected = "not connected to the cluster"

// queryTimeout limits a query.
const queryTimeout = 15 * time.Second

func (i *Inspector) load(t Tab, it Item) tea.Cmd {
	answers, live, o := i.answers, i.Live, it.Object
	i.Stop()
	i.asked = time.Now()
	if t == TabLogs {
		return i.followLogs(o)
	}
	ctx, cancel := context.WithTimeout(i.ctx, queryTimeout)
	i.cancel = cancel
	n := i.N
	return func() tea.Msg {
		defer cancel()
		var text []string
		var pods []Pod
		var err error
		switch t {
		case TabEvents:
			text, err = answers.Events(ctx, o)
		case TabPods:
			pods, err = answers.Pods(ctx, o)
		case TabManifest:
			var manifest string
			if live {
				manifest, err = answers.Live(ctx, o)
			} else {
				manifest, err = answers.Sent(ctx, it)
			}
			text = strings.Split(maskSecrets(o, strings.TrimRight(manifest, "\n")), "\n")
		}
		return LoadedMsg{n, text, pods, err}
	}
}

// loaded stores an answer, unless another query followed.
func (i *Inspector) loaded(a LoadedMsg) {
	if a.N != i.N {
		return
	}
	i.busy = false
	i.text, i.pods, i.note = cleanLines(a.Text), cleanPods(a.Pods), ""
	if len(i.pods) == 0 && (len(i.text) == 0 || len(i.text) == 1 && i.text[0] == "") {
		i.text, i.note = nil, "nothing here"
	}
	if a.err != nil {
		i.note = noAnswerText(a.err)
	}
}

// noAnswerText says why there is no answer.
func noAnswerText(err error) string {
	if none := Nothing(""); errors.As(err, &none) {
		return string(none)
	}
	return "lookup failed: " + err.Error()
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

func cleanLines(lines []string) []string {
	var out []string
	for _, l := range lines {
		for s := range strings.SplitSeq(strings.TrimRight(l, "\r\n"), "\n") {
			out = append(out, canvas.Clean(s))
		}
	}
	return out
}

// logError returns the text of an error, "" for a cancelled context.
func logError(err error) string {
	if err == nil || errors.Is(err, context.Canceled) {
		return ""
	}
	if none := Nothing(""); errors.As(err, &none) {
		return string(none)
	}
	return "cannot follow the log: " + err.Error()
}
