// Package inspector is what is to be known of one group or object: why it is as
// it is, what it waits for, how long it took; and what only the cluster can tell,
// events, pods, logs and the manifest, which it asks for and waits for.
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

// Answers tells what only the cluster knows about an object. Its methods
// are called in goroutines of their own and must return soon after ctx ends.
// Text may hold anything; the screen cleans it, and masks the values of a
// Secret even where the implementation has not.
type Answers interface {
	Foresight
	// Events returns the object's events, and those of what it owns, oldest
	// first, one per line; none of an earlier object of the same name.
	Events(ctx context.Context, o plan.Object) ([]string, error)
	// Pods returns the object's pods, the one with the most trouble first, or
	// Nothing.
	Pods(ctx context.Context, o plan.Object) ([]Pod, error)
	// Logs calls follow with each line of the logs of the object's pods, of all
	// containers, and continues with those that begin meanwhile. It returns at the end
	// of ctx, or if there is nothing to wait for. follow does not block, and may be
	// called by several at a time.
	Logs(ctx context.Context, o plan.Object, follow func(LogLine)) error
	// Live returns the object as it is in the cluster, as YAML, or Nothing.
	Live(ctx context.Context, o plan.Object) (string, error)
}

// Foresight says what a run does to objects, as Answers does.
type Foresight interface {
	// Change returns what the run does to an object, as the cluster is now, or
	// Nothing.
	Change(ctx context.Context, it Item) (Change, error)
	// Sent returns the object as the run sends it, as YAML, or Nothing.
	Sent(ctx context.Context, it Item) (string, error)
}

// Item is an object with its place in what is done.
type Item struct {
	event.Unit
	Kind   event.PhaseKind // of the unit's phase
	Object plan.Object
}

// Nothing is the error of an answer that says why there is none to give.
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

// asks reports whether the tab's content has to be asked of the cluster: one
// question about one object.
func (t Tab) asks() bool {
	return t == TabEvents || t == TabPods || t == TabLogs || t == TabManifest
}

// Inspector is the open inspector.
type Inspector struct {
	ctx     context.Context
	answers Answers // nil: nobody can be asked
	changes *Changes
	Tab     Tab
	Live    bool // the manifest is that of the object in the cluster
	Cut     bool // lines that are too long are cut off, not broken
	Times   bool // lines of logs begin with when they were written
	Page    pageOf
	about   Item // what the cluster was asked about
	N       int  // counts questions, so that a late answer is told from a new one
	cancel  context.CancelFunc
	busy    bool
	asked   time.Time
	text    []string // the answer, clean
	pods    []Pod    // or this
	note    string   // why there is none
	tail    *logTail
	logs    logBook
	search  search
}

// pageOf is where a scrolled text is.
type pageOf struct {
	Top, Last int
	End       bool // stays at the end as text is added
}

func (i *Inspector) Scroll(by int) {
	i.Page.Top = min(max(i.Page.Top+by, 0), i.Page.Last)
	i.Page.End = i.Tab == TabLogs && i.Page.Top == i.Page.Last
}

// New opens the inspector. Questions end with ctx; what is known of changes outlives
// it.
func New(ctx context.Context, answers Answers, changes *Changes) *Inspector {
	return &Inspector{ctx: ctx, answers: answers, changes: changes}
}

// Stop ends what the open tab asks.
func (i *Inspector) Stop() {
	if i.cancel != nil {
		i.cancel()
		i.cancel = nil
	}
}

// Open opens a tab about an object; there may be none.
func (i *Inspector) Open(t Tab, about Item, ok bool) tea.Cmd {
	i.Tab = t
	return i.ask(about, ok)
}

// Turn asks again where another object has been selected.
func (i *Inspector) Turn(about Item, ok bool) tea.Cmd {
	if i.Tab.asks() && ok && about == i.about {
		return nil
	}
	return i.ask(about, ok)
}

// Loading reports whether the open tab shows something that goes stale.
func (i *Inspector) Loading() bool {
	return i.answers != nil && (i.Tab == TabEvents || i.Tab == TabPods)
}

// refreshEvery is how often events and pods are looked up again.
const refreshEvery = 3 * time.Second

// Refresh asks again what has gone stale.
func (i *Inspector) Refresh() tea.Cmd {
	if !i.Loading() || i.busy || time.Since(i.asked) < refreshEvery {
		return nil
	}
	i.N++
	return i.question(i.Tab, i.about)
}

// ask begins to look up what the open tab shows.
func (i *Inspector) ask(about Item, ok bool) tea.Cmd {
	i.Stop()
	i.N++
	i.Page = pageOf{End: i.Tab == TabLogs}
	i.text, i.pods, i.note, i.busy, i.tail, i.logs = nil, nil, "", false, nil, logBook{}
	i.search.at = -1
	i.about = about
	switch {
	case !i.Tab.asks() || !ok:
		return nil
	case i.answers == nil:
		i.note = notConnected
		return nil
	}
	i.busy = true
	return i.question(i.Tab, about)
}

// Again asks again what the open tab shows, where the moment that it is asked about
// is another one. Who has scrolled stays where they were.
func (i *Inspector) Again() tea.Cmd {
	if i.answers == nil || !i.Tab.asks() || i.about == (Item{}) {
		return nil
	}
	i.N++
	if i.Tab == TabLogs {
		i.text = nil
	}
	return i.question(i.Tab, i.about)
}

// LoadedMsg answers the n-th question.
type LoadedMsg struct {
	N    int
	Text []string
	Pods []Pod
	err  error
}

const notConnected = "not connected to the cluster"

// askTimeout is how long an answer may take.
const askTimeout = 15 * time.Second

func (i *Inspector) question(t Tab, it Item) tea.Cmd {
	answers, live, o := i.answers, i.Live, it.Object
	i.Stop()
	i.asked = time.Now()
	if t == TabLogs {
		return i.followLogs(o)
	}
	ctx, cancel := context.WithTimeout(i.ctx, askTimeout)
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

// loaded takes an answer, unless that has come too late.
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
		i.note = whyNone(a.err)
	}
}

// whyNone says why there is no answer.
func whyNone(err error) string {
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

// errText is an error for the inspector; the end of its context is none.
func errText(err error) string {
	if err == nil || errors.Is(err, context.Canceled) {
		return ""
	}
	if none := Nothing(""); errors.As(err, &none) {
		return string(none)
	}
	return "cannot follow the log: " + err.Error()
}
