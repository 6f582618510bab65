// Package inspector shows one group or object: why it has its status, its order and timings, and,
// from the cluster, its diff, manifest, events, pods and logs. Its central types are Inspector, the
// part of the screen, and Subject, the selection.
package inspector

import (
	"context"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/picture"
	"lockstep/ui/board/screen"
)

// Tab is a page of the inspector.
type Tab int

const (
	TabWhy Tab = iota
	TabDiff
	TabManifest
	TabEvents
	TabPods
	TabLogs
	TabOrder
	TabTimings
	Tabs
)

var TabNames = [Tabs]string{"why", "diff", "manifest", "events", "pods", "logs", "order", "timings"}

// queries reports whether the tab shows the result of a query to the cluster.
func (t Tab) queries() bool {
	return t == TabEvents || t == TabPods || t == TabLogs || t == TabManifest
}

// Inspector is the part of the screen that shows the selection in detail. It may be closed.
type Inspector struct {
	*screen.Screen
	Shown bool
	Area  canvas.Rect
	// Kubectl holds the kubectl flags that select the cluster. Nil: the operation's
	// context.
	Kubectl []string
	ctx     context.Context // ends all queries
	cluster inspect.Cluster // nil: not connected
	changes *changes
	show    func() // scrolls the selection into view

	Tab   Tab
	Live  bool // the manifest tab shows the object in the cluster
	Cut   bool // truncate long lines instead of wrapping them
	Times bool // show the timestamps of log lines
	Page  scrollState
	N     int // number of the query, to drop late answers
	result
	search    search
	queried   inspect.Item // the object of the last query
	queriedAt time.Time
	cancel    context.CancelFunc
	tail      *logTail
}

type scrollState struct {
	Top, Last int  // the first line in view, and its maximum
	End       bool // follows the end of the text
}

// New returns a closed inspector; cluster may be nil. Its queries end with ctx. release returns the changes of a release of a stack by
// its Event.Scope; nil for an operation on one release.
func New(ctx context.Context, s *screen.Screen, cluster inspect.Cluster, release func(scope string) inspect.ChangeSource, show func()) *Inspector {
	i := &Inspector{Screen: s, ctx: ctx, cluster: cluster, show: show}
	source := release
	if release == nil {
		source = func(string) inspect.ChangeSource { return cluster }
	}
	if cluster == nil {
		source = nil
	}
	i.changes = newChanges(ctx, source)
	return i
}

// Subject returns the selection.
func (i *Inspector) Subject() Subject {
	return Subject{Picture: &i.Picture, Node: i.Group(), Object: i.Object()}
}

// TargetObject returns the object that the tabs show: the selected one, or the most urgent one of the
// selected group; nil if there is none.
func (i *Inspector) TargetObject() *event.ObjectState {
	if o := i.Object(); o != nil {
		return o
	}
	n := i.Group()
	if n == nil || len(n.Objects) == 0 {
		return nil
	}
	if w := picture.Worst(n); w != nil {
		return w
	}
	for _, o := range n.Objects {
		if runsPods(o.Object) {
			return o
		}
	}
	return n.Objects[0]
}

// runsPods reports whether an object has pods that are not also those of another one.
func runsPods(o plan.Object) bool { return inspect.HasPods(o) && o.Kind != "Service" }

// WhyNoPods says why the target has neither pods nor logs, "" if it may have some.
func (i *Inspector) WhyNoPods() string {
	o := i.TargetObject()
	if o == nil || i.isStep() || inspect.HasPods(o.Object) {
		return ""
	}
	why := i.Graph.Object(o.Object) + " has no pods"
	if i.Object() == nil {
		if at := slices.IndexFunc(i.Group().Objects, func(o *event.ObjectState) bool { return runsPods(o.Object) }); at >= 0 {
			return why + "; select " + i.Graph.Object(i.Group().Objects[at].Object) + " first"
		}
	}
	return why
}

// LogsMayHelp reports whether the target may have logs about its problem: not if the run could not apply it, and not if the
// diagnosis is about no pod.
func (i *Inspector) LogsMayHelp() bool {
	o := i.TargetObject()
	if o == nil || i.WhyNoPods() != "" || !i.Exists() {
		return false
	}
	d := o.Details
	return o.Done() || d == nil || d.IsEmpty() || len(d.Pods)+len(d.Log) > 0 || d.Source != event.Source{}
}

// Exists reports whether the target is in the cluster as the run wants it: not if the API server has refused it.
func (i *Inspector) Exists() bool {
	o := i.TargetObject()
	return o != nil && (!o.Answered.IsZero() || i.State.Operation.IsWatch() || i.isStep())
}

// Item returns the target object with its place in the plan.
func (i *Inspector) Item() (inspect.Item, bool) {
	o := i.TargetObject()
	if o == nil {
		return inspect.Item{}, false
	}
	return i.Subject().item(o), true
}

// Title returns the full name of the selected group or object. Like a card, it names a hook after its object.
func (i *Inspector) Title() string {
	n := i.Group()
	if n == nil {
		return ""
	}
	title := n.Name
	if n.Single() {
		title = i.Graph.Object(n.Objects[0].Object)
	}
	if o := i.Object(); o != nil && !n.Single() && !i.IsRelease() {
		title += " " + i.Theme.Lines.Dot + " " + i.Graph.Object(o.Object)
	}
	return title
}

func (i *Inspector) Connected() bool { return i.cluster != nil }

// CanPreview reports whether the selected group has not started and can be compared with the
// cluster.
func (i *Inspector) CanPreview() bool {
	n := i.Group()
	return n != nil && n.Step == nil && i.cluster != nil && (n.Status == event.Waiting || n.Status == event.AtBreakpoint)
}

// ShowsDiff reports whether the pane shows the diff of the selection: only while the run waits for the user, or if the user has
// selected a release. Of a release in trouble, the groups matter more.
func (i *Inspector) ShowsDiff() bool {
	run, _ := i.RunStatus()
	switch waits := run == event.Paused || run == event.Held || i.PlanOnly(); {
	case i.Shown:
		return false
	case i.IsRelease():
		n := i.Group()
		trouble := n != nil && (picture.InTrouble(n) || i.State.ReleaseRun(n.GroupState) == event.Held)
		return (waits || !i.Follow) && !trouble && i.cluster != nil && len(i.Subject().groups()) > 0
	default:
		return waits && i.CanPreview()
	}
}

// Wraps reports whether the lines of the open tab can be wrapped or truncated.
func (i *Inspector) Wraps() bool {
	return i.Tab == TabLogs || i.Tab == TabManifest || i.Tab == TabEvents
}

func (i *Inspector) Close() tea.Cmd {
	if i.Shown {
		i.Stop()
		i.Shown = false
		i.show()
	}
	return nil
}

func (i *Inspector) open() {
	i.Follow = false
	if !i.Shown {
		i.Shown, i.Cut, i.Times, i.search = true, false, false, search{}
		i.show()
	}
}

// Open opens the inspector: on the diff tab if the group has not started, else on the why tab.
func (i *Inspector) Open() tea.Cmd {
	if i.CanPreview() {
		return i.OpenTab(TabDiff)
	}
	return i.OpenTab(TabWhy)
}

// OpenTab opens the inspector on a tab.
func (i *Inspector) OpenTab(t Tab) tea.Cmd {
	i.open()
	return i.SwitchTab(t)
}

// SwitchTab switches to a tab. For an object that was applied, the manifest tab starts with the live
// object.
func (i *Inspector) SwitchTab(t Tab) tea.Cmd {
	i.Tab = t
	if t == TabManifest {
		o := i.TargetObject()
		i.Live = o != nil && applied(o)
	}
	return i.query()
}

// OpenDiff opens the diff, or refreshes it if it is open.
func (i *Inspector) OpenDiff() tea.Cmd {
	if i.Shown && i.Tab == TabDiff || i.State.Operation.IsWatch() { // somebody may have changed the objects
		i.changes.forget(i.Subject())
	}
	return i.OpenTab(TabDiff)
}

// OpenManifest opens the manifest that the run applies.
func (i *Inspector) OpenManifest() tea.Cmd {
	i.open()
	i.Tab, i.Live = TabManifest, false
	return i.query()
}

// OpenLive opens the manifest of the object in the cluster.
func (i *Inspector) OpenLive() tea.Cmd {
	i.open()
	i.Tab, i.Live = TabManifest, true
	return i.query()
}

func (i *Inspector) Scroll(by int) {
	i.Page.Top = min(max(i.Page.Top+by, 0), i.Page.Last)
	i.Page.End = i.Tab == TabLogs && i.Page.Top == i.Page.Last
}

// ScrollPage scrolls by pages that overlap by one line.
func (i *Inspector) ScrollPage(by int) {
	body, head := i.tabBody()
	i.Scroll(by * max(body.H-len(head)-1, 1))
}

func (i *Inspector) Wheel(at tea.Mouse) {
	switch at.Button {
	case tea.MouseWheelUp:
		i.Scroll(-3)
	case tea.MouseWheelDown:
		i.Scroll(3)
	}
}

// Click opens the tab under the mouse.
func (i *Inspector) Click(x, y int) tea.Cmd {
	if k := slices.IndexFunc(i.tabRects(), func(r canvas.Rect) bool { return r.X >= 0 && r.Has(x, y) }); k >= 0 {
		return i.SwitchTab(Tab(k))
	}
	return nil
}

// Update stores answers, and queries again after events changed the state of a replay.
func (i *Inspector) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case changesMsg:
		i.changes.store(msg)
	case LoadedMsg:
		i.loaded(msg)
	case logMsg:
		if i.Shown {
			return i.logged(msg)
		}
	case shellMsg:
		return i.runShell(msg)
	case shellEnded:
		return i.endShell(msg)
	case keys.Changed:
		if i.Replayed {
			return i.reload()
		}
	}
	return nil
}

// Copy copies the text of the open tab, or of the pane.
func (i *Inspector) Copy() tea.Cmd {
	const noWrap = 1 << 16
	lines := i.Subject().Why(noWrap, noWrap)
	if i.Shown {
		lines = append(i.head(noWrap), i.lines(noWrap)...)
	}
	var copied strings.Builder
	for _, l := range lines {
		copied.WriteString(strings.TrimRight(canvas.Clean(l.Text()), " ") + "\n")
	}
	return tea.Batch(tea.SetClipboard(copied.String()), i.Say(theme.Quiet, text.Count(len(lines), "line")+" copied"))
}
