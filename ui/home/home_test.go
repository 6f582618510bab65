package home

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

func stateOf(t testing.TB, name string) state {
	t.Helper()
	i := slices.IndexFunc(states, func(s state) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("no state %q", name)
	}
	return states[i]
}

// TestCommands: what home ends with, by the keys that are pressed.
func TestCommands(t *testing.T) {
	for _, tt := range []struct{ state, keys, want string }{
		{"runs", "enter", "attach payments --namespace shop"},
		{"runs", "down down enter", "attach apps"},
		{"runs", "down down down enter", "attach apps"},                          // a release of the stack
		{"runs", "down down down down down down enter", ""},                      // controlled from elsewhere
		{"runs", "down down down down down down down down enter", "attach apps"}, // its stack changes it now
		{"runs", "down down down down down down down down down enter", "watch pg --namespace shop"},
		{"three", "enter", "watch pg --namespace shop"},
		{"three", "U", "up --step"},
		{"history", "x", ""},
		{"thousand", "end enter", "watch worker --namespace shop"},
		{"history", "P", "replay 20261120-120000-api"},
		{"history", "down p", ""}, // no record of its run
		{"history", "down enter", "watch api --namespace shop --revision 13"},
		{"history", "r", ""}, // the latest revision
		{"past", "enter", "replay 20261120-090000-worker"},
		{"past", "end enter", "replay 20260426-110000-service-009"},
		{"past", "home down down down down down down down down enter", "attach lockstep-service-008-x7k2p --namespace shop"},
		{"past-filter", "home enter", "replay 20261120-140000-api"},
		{"past-filter", "esc esc enter", "watch api --namespace shop"}, // back in home
		{"empty", "enter", ""},
		{"three", "q", ""},
	} {
		r := stateOf(t, tt.state).open(t, 100, 30, bare, func(o *Options) { o.Helmfile = true })
		for _, key := range strings.Fields(tt.keys) {
			r.press(key)
		}
		if got := strings.Join(r.args, " "); got != tt.want {
			t.Errorf("%s in %s ends with %q, want %q", tt.keys, tt.state, got, tt.want)
		}
	}
}

// fakeForm is a form that ends with its request, or with nothing.
type fakeForm struct {
	request Request
	done    func([]string) tea.Cmd
}

func (f *fakeForm) Keys() []keys.Binding {
	end := func(args ...string) func() tea.Cmd { return func() tea.Cmd { return f.done(args) } }
	return []keys.Binding{{Keys: "enter", Do: end(f.request.Operation, f.request.Release, "-n", f.request.Namespace)}, {Keys: "esc", Do: end()}}
}
func (f *fakeForm) Update(tea.Msg) tea.Cmd { return nil }
func (f *fakeForm) Draw()                  {}

// TestForm: a key opens the form for what is selected, and home ends with its command line. If it is closed, home is as before; but
// home that was opened for the form ends.
func TestForm(t *testing.T) {
	var requests []Request
	withForm := func(o *Options) {
		o.Form = func(_ *screen.Screen, r Request, done func([]string) tea.Cmd) keys.Mode {
			requests = append(requests, r)
			return &fakeForm{r, done}
		}
	}
	r := stateOf(t, "three").open(t, 100, 30, bare, withForm)
	r.press("u")
	r.press("esc")
	if len(r.Modes) != 0 || r.args != nil {
		t.Fatalf("after esc, %d modes are open, and home ends with %q", len(r.Modes), r.args)
	}
	r.press("u")
	r.press("enter")
	if want := []string{"upgrade", "pg", "-n", "shop"}; !slices.Equal(r.args, want) {
		t.Errorf("home ends with %q, want %q", r.args, want)
	}
	r = stateOf(t, "history").open(t, 100, 30, bare, withForm)
	for _, key := range []string{"down", "down", "d", "r"} {
		r.press(key)
	}
	if r.Flash.Text != "" {
		t.Errorf("the form says %q of the screen before", r.Flash.Text)
	}
	if got, want := requests[len(requests)-1], (Request{"rollback", "api", "shop", 12}); got != want {
		t.Errorf("the form is opened for %+v, want %+v", got, want)
	}
	r = stateOf(t, "denied").open(t, 100, 30, bare, withForm)
	n := len(requests)
	for _, key := range []string{"u", "r", "x", "i"} {
		r.press(key)
		if len(requests) != n {
			t.Errorf("%s opens a form for %+v, which is not permitted", key, requests[n])
		}
	}
	if !strings.Contains(r.text(), "no permission to create secrets in namespace shop") {
		t.Errorf("the reason is not shown:\n%s", r.text())
	}
	install := Request{Operation: "install", Namespace: "shop"}
	r = stateOf(t, "three").open(t, 100, 30, bare, withForm, func(o *Options) { o.Open = &install })
	r.model.Init()
	if requests[len(requests)-1] != install {
		t.Errorf("the first form is for %+v, want %+v", requests[len(requests)-1], install)
	}
	if cmd := r.form.(*fakeForm).done(nil); cmd == nil {
		t.Error("home stays open after the form that it was opened for")
	}
}

// TestLocked: home starts no operation on a release that a live run has locked, and says which run that is. Enter attaches to it.
func TestLocked(t *testing.T) {
	install := func(o *Options) {
		o.Form = func(_ *screen.Screen, r Request, done func([]string) tea.Cmd) keys.Mode {
			return &fakeForm{Request{Operation: r.Operation, Release: "payments", Namespace: "shop"}, done}
		}
	}
	for _, pressed := range []string{"i enter", "end u", "end x"} {
		r := state{Snapshot: Snapshot{Listed: true, Runs: liveRuns(), Releases: []Release{{Key: Key{"shop", "payments"}, Status: "deployed"}}}}.open(t, 100, 30, bare, install)
		for _, key := range strings.Fields(pressed) {
			r.press(key)
		}
		if want := "release payments is locked by its live run: upgrade payments-1.5.0 by ann on box; press enter to attach"; r.Flash.Text != want || len(r.args) > 0 || len(r.Modes) > 0 {
			t.Errorf("%s: home says %q and ends with %q, want %q", pressed, r.Flash.Text, r.args, want)
		}
		r.press("enter")
		if got, want := strings.Join(r.args, " "), "attach payments --namespace shop"; got != want {
			t.Errorf("%s, enter: %q, want %q", pressed, got, want)
		}
	}
	r := state{Snapshot: Snapshot{Listed: true, Runs: liveRuns()[3:4]}}.open(t, 100, 30, bare)
	r.press("enter")
	if want := "cannot attach from here: attach as ann on box"; r.Flash.Text != want || len(r.args) > 0 {
		t.Errorf("enter on a run elsewhere: %q, %q, want %q", r.Flash.Text, r.args, want)
	}
}

// TestReleaseOfARun: enter on a release with a live run attaches to it, also to a stack's; a run that cannot be attached to from here
// leaves its release to watch.
func TestReleaseOfARun(t *testing.T) {
	for name, want := range map[string]string{"payments": "attach payments --namespace shop", "api": "attach apps", "cart": "watch cart --namespace shop", "web": "watch web --namespace shop"} {
		r := state{Snapshot: Snapshot{Listed: true, Runs: liveRuns(), Releases: []Release{{Key: Key{"shop", name}, Status: "deployed"}}}}.open(t, 100, 30, bare)
		r.press("end")
		r.press("enter")
		if got := strings.Join(r.args, " "); got != want {
			t.Errorf("enter on %s ends with %q, want %q", name, got, want)
		}
	}
}

// TestFilterByNamespace: a filter finds a release by its name with its namespace.
func TestFilterByNamespace(t *testing.T) {
	r := stateOf(t, "thousand").open(t, 100, 30, bare)
	for _, key := range strings.Fields("/ s h o p / a p i enter") {
		r.press(key)
	}
	if len(r.table.rows) != 1 || r.release() == nil || r.release().Name != "api" {
		t.Errorf("shop/api finds %d rows:\n%s", len(r.table.rows), r.text())
	}
}

// TestGoesToTheRelease: after a form, home shows the namespace of the release that its command changes, and selects it.
func TestGoesToTheRelease(t *testing.T) {
	r := stateOf(t, "filter").open(t, 100, 30, bare)
	r.goTo([]string{"install", "cart", "./chart", "-n", "team1", "--create-namespace"})
	if s := r.state; s.Namespace != "team1" || s.Filter != "" || s.Selected != "release team1/cart" {
		t.Errorf("home goes to %+v", s)
	}
}

// TestFilterAfterUninstall: home drops its filter with the release that it may have been for. A filter without a match says so.
func TestFilterAfterUninstall(t *testing.T) {
	r := stateOf(t, "filter").open(t, 100, 30, bare)
	r.goTo([]string{"uninstall", "payments", "-n", "shop"})
	if r.state.Filter != "" {
		t.Errorf("the filter %q is kept", r.state.Filter)
	}
	r = stateOf(t, "three").open(t, 100, 30, bare)
	for _, key := range strings.Fields("/ z z") {
		r.press(key)
	}
	if want := "no release matches /zz; esc clears the filter"; !strings.Contains(r.text(), want) {
		t.Errorf("home does not show %q:\n%s", want, r.text())
	}
}

// TestRunsElsewhere: home says that it lists runs of other namespaces, too.
func TestRunsElsewhere(t *testing.T) {
	for namespace, want := range map[string]bool{"shop": false, "data": true} {
		s := state{Snapshot: Snapshot{Listed: true, Runs: []LiveRun{{Key: Key{namespace, "api"}, Status: event.Running}}}}
		if got := strings.Contains(s.open(t, 100, 30, bare).text(), "runs  also of other namespaces"); got != want {
			t.Errorf("with a run in namespace %s: %v", namespace, got)
		}
	}
}

// TestNarrowColumns: the cause of a run has the room of its chart, and a chart that is cut keeps its version.
func TestNarrowColumns(t *testing.T) {
	text := stateOf(t, "runs").open(t, 80, 24, bare).text()
	for _, want := range []string{"upgrade  held, fails in 4:12: migrate: Job/migrat…", "postgres… 16.2.1"} {
		if !strings.Contains(text, want) {
			t.Errorf("home does not show %q:\n%s", want, text)
		}
	}
}

// TestStack: the releases of a stack that was deployed lately are a tree, those in other namespaces, too; sorted by health, they stand
// among the others. A release of it keeps the namespace that is shown; enter on the stack replays its run. While it runs, its tree is
// among the runs.
func TestStack(t *testing.T) {
	s := stateOf(t, "stack").Snapshot
	r := stateOf(t, "stack").open(t, 100, 30, bare)
	for _, want := range []string{"stack · up done", "├─ ✓ data/pg", "└─ ✓ api", "4 releases"} {
		if !strings.Contains(r.text(), want) {
			t.Errorf("home does not show %q:\n%s", want, r.text())
		}
	}
	if r.press("enter"); strings.Join(r.args, " ") != "replay 20261120-135700-apps" {
		t.Errorf("enter on the stack ends with %q", r.args)
	}
	r.goTo([]string{"upgrade", "pg", "./chart", "-n", "data"})
	if r.state.Namespace != "shop" || r.state.Selected != "release data/pg" {
		t.Errorf("after an upgrade of a release of the stack, home shows %+v", r.state)
	}
	for _, key := range strings.Fields("/ a p p s enter") {
		r.press(key)
	}
	if n := r.table.releases(); n != 2 || len(r.table.rows) != 3 {
		t.Errorf("the name of the stack finds %d releases in %d rows", n, len(r.table.rows))
	}
	r.press("esc")
	for _, key := range strings.Fields("/ d a t a / p g enter") {
		r.press(key)
	}
	if got := r.release(); got == nil || got.Name != "pg" {
		t.Errorf("a filter that finds a release of the stack selects %+v", got)
	}
	r.press("esc")
	if r.press("s"); strings.Contains(r.text(), "├─") || !strings.Contains(r.text(), "data/pg") {
		t.Errorf("sorted by health:\n%s", r.text())
	}
	s.Runs = []LiveRun{{Key: Key{Name: "apps"}, Operation: "up", Status: event.Running}}
	if r := (state{Snapshot: s}).open(t, 100, 30, bare); strings.Contains(r.text(), "stack · up") {
		t.Errorf("a stack that runs has its last run, too:\n%s", r.text())
	}
}

// TestNaturalOrder: numbers in names are sorted by their value.
func TestNaturalOrder(t *testing.T) {
	s := Snapshot{Releases: []Release{{Key: Key{"shop", "team-10"}}, {Key: Key{"shop", "team-2"}}}}
	if got := newTable(&s, "", ByName, func(k Key) string { return k.Name }); got.rows[0].release.Name != "team-2" {
		t.Errorf("%s is the first", got.rows[0].release.Name)
	}
}

// TestDegradedRun: a run is shown as degraded, with the cause, as soon as its release is.
func TestDegradedRun(t *testing.T) {
	runs := []LiveRun{{Key: Key{"shop", "worker"}, Operation: "upgrade", Status: event.Running, Why: "1 of 2 groups done"}}
	r := state{Snapshot: Snapshot{Listed: true, Runs: runs, Releases: releases(3)}}.open(t, 160, 45, bare)
	if want := "degraded: Deployment/worker: container main cannot start"; !strings.Contains(r.text(), want) {
		t.Errorf("home does not show %q:\n%s", want, r.text())
	}
	if runs[0].Status != event.Running {
		t.Error("the snapshot of the source has changed")
	}
}

// TestRoom: no run and no release is out of view, and no line of the pane is missing, while the screen has an empty line.
func TestRoom(t *testing.T) {
	for _, runs := range []int{0, 1, 4, 7, 9, 12, 15, 18, 30} {
		for _, height := range []int{20, 24, 30, 45} {
			var live []LiveRun
			for n := range runs {
				live = append(live, LiveRun{Key: Key{"shop", fmt.Sprint("run-", n)}, Operation: "upgrade", Status: event.Held, Why: strings.Repeat("a long cause ", 20)})
			}
			r := state{Snapshot: Snapshot{Listed: true, Runs: live, Releases: releases(3)}}.open(t, 100, height, bare)
			l := r.layOut()
			empty := l.releases.H - 3
			if hidden := runs - l.runs.H; hidden > 0 && empty > 0 {
				t.Errorf("%d of %d runs are out of view on %d lines, %d of which are empty:\n%s", hidden, runs, height, empty, r.text())
			}
			if l.pane.H < maxPane && empty > 0 {
				t.Errorf("the pane has %d lines on %d, %d of which are empty", l.pane.H, height, empty)
			}
		}
	}
}

// TestRunsWithoutReleases: without releases, runs get all rows but one.
func TestRunsWithoutReleases(t *testing.T) {
	for _, height := range []int{20, 24, 30, 45} {
		var live []LiveRun
		for n := range 60 {
			live = append(live, LiveRun{Key: Key{"shop", fmt.Sprint("run-", n)}, Operation: "upgrade", Status: event.Held})
		}
		r := state{Snapshot: Snapshot{Listed: true, Runs: live}}.open(t, 100, height, bare)
		l := r.layOut()
		if rest := height - 1 - firstLine - l.runs.H - l.pane.H; rest > 5 { // headings, an empty line, and the sentence of drawEmpty
			t.Errorf("%d rows of %d are left to nothing:\n%s", rest, height, r.text())
		}
		if !strings.Contains(r.text(), "no releases in namespace shop") {
			t.Errorf("home does not say that there are no releases:\n%s", r.text())
		}
	}
}

// TestHealthHasRoom: at 100 columns, health has room for an object next to long names, and says the status if that is not the usual one.
func TestHealthHasRoom(t *testing.T) {
	all := releases(2)
	all[0].Name, all[0].Chart, all[0].Status = strings.Repeat("long-name-", 2), "payments 12.34.56-rc.1", "pending-upgrade"
	all[1].Health = Health{Status: event.InProgress, Degraded: true, Ready: 1, Of: 3, Cause: "Deployment/worker: container app cannot start"}
	r := state{Snapshot: Snapshot{Listed: true, Releases: all}}.open(t, 100, 30, bare)
	if s := r.text(); !strings.Contains(s, "pending-upgrade, ") || !strings.Contains(s, "Deployment/work") {
		t.Errorf("health has %d columns:\n%s", r.columns().health, s)
	}
}

// TestPlace: a screen that was opened from the history or from the past runs says that it leads back there.
func TestPlace(t *testing.T) {
	for name, want := range map[string]string{"three": "home", "history": "the history", "past": "the past runs"} {
		if got := stateOf(t, name).open(t, 100, 30, bare).state.Place(); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// TestSelectionStays: the selected release stays selected, and in view, while others come and go.
func TestSelectionStays(t *testing.T) {
	r := stateOf(t, "forty").open(t, 100, 30, bare)
	for range 12 {
		r.press("down")
	}
	want := r.row().id()
	for _, change := range []Snapshot{
		{Listed: true, Releases: releases(40), Runs: liveRuns()}, {Listed: true, Releases: releases(400)}, {Listed: true, Releases: releases(30)[3:]},
	} {
		r.send(snapshotMsg{change, r.number})
		if got := r.row().id(); got != want {
			t.Errorf("%s is selected, want %s", got, want)
		}
		if name := r.release().Name; !strings.Contains(r.text(), "▸ ✓ "+name) {
			t.Errorf("%s is not in view:\n%s", name, r.text())
		}
	}
	r.send(snapshotMsg{Snapshot{Listed: true}, r.number - 1}) // of another namespace
	if len(r.table.rows) == 0 {
		t.Error("a snapshot of another namespace is shown")
	}
}

// TestFoundStaysSelected: what a filter has found is still selected without the filter.
func TestFoundStaysSelected(t *testing.T) {
	r := stateOf(t, "runs").open(t, 100, 30, bare)
	before := r.row().id()
	for _, key := range []string{"/", "w", "o", "r", "k", "e", "r", "enter"} {
		r.press(key)
	}
	found := r.row().id()
	if r.press("esc"); found == before || r.row().id() != found {
		t.Errorf("%s was selected, then %s, and without the filter %s", before, found, r.row().id())
	}
}

// TestHistoryOfARun: h on a run shows the history of its release; a stack has none.
func TestHistoryOfARun(t *testing.T) {
	r := stateOf(t, "runs").open(t, 100, 30, bare)
	r.press("h")
	if !strings.Contains(r.text(), "history of payments") {
		t.Errorf("h does not open the history:\n%s", r.text())
	}
	r = stateOf(t, "runs").open(t, 100, 30, bare)
	for _, key := range []string{"down", "down", "h"} {
		r.press(key)
	}
	if !strings.Contains(r.text(), "select a release first") {
		t.Errorf("h on a stack does not say why it does nothing:\n%s", r.text())
	}
}

// TestNeed: home asks for the releases in view, and for no others.
func TestNeed(t *testing.T) {
	r := stateOf(t, "thousand").open(t, 100, 30, bare)
	r.press("home")
	if n := len(r.source.needed); n == 0 || n > 30 || r.source.needed[0].Name != "api" {
		t.Errorf("home needs %d releases: %v", n, r.source.needed)
	}
	r.press("end")
	if got := r.source.needed; len(got) > 30 || got[len(got)-1].Name != "worker" {
		t.Errorf("at the end, home needs %v", got)
	}
}

// TestWhereItWas: home opens where it was before a command.
func TestWhereItWas(t *testing.T) {
	s := stateOf(t, "forty")
	first := s.open(t, 100, 30, bare)
	for _, key := range strings.Fields("/ s e r v enter down down down") {
		first.press(key)
	}
	want := first.text()
	s.keys = ""
	again := s.open(t, 100, 30, bare, func(o *Options) { o.State = first.state })
	if got := again.text(); got != want {
		t.Errorf("home was\n%s\nand is\n%s", want, got)
	}
}

// TestNamespace: another namespace is typed, or completed, and A shows all. The rows of the one before are gone at once.
func TestNamespace(t *testing.T) {
	r := stateOf(t, "three").open(t, 100, 30, bare)
	for _, key := range []string{":", "d", "tab", "enter"} {
		r.press(key)
	}
	if r.state.scope() != "data" || len(r.table.rows) > 0 || !strings.Contains(r.text(), "ns data") {
		t.Errorf("the namespace is %q:\n%s", r.state.scope(), r.text())
	}
	r.press("0")
	if r.state.scope() != "" || !strings.Contains(r.text(), "all namespaces") {
		t.Errorf("A shows %q", r.state.scope())
	}
	for _, key := range []string{"/", "p", "g", "enter", ":", "s", "h", "enter"} { // only one starts with sh; the filter was for the one before
		r.press(key)
	}
	if r.state.scope() != "shop" || r.state.Filter != "" {
		t.Errorf("sh opens %q with the filter %q", r.state.scope(), r.state.Filter)
	}
	for _, key := range []string{":", "d", "enter"} { // two start with d
		r.press(key)
	}
	if r.state.scope() != "d" {
		t.Errorf("d opens %q", r.state.scope())
	}
	for _, key := range []string{":", "d", "a", "enter", "0", "0"} {
		r.press(key)
	}
	for _, key := range []string{":", "x", "esc"} {
		r.press(key)
	}
	if r.state.scope() != "data" {
		t.Errorf("after A and esc, the namespace is %q", r.state.scope())
	}
}

// TestHistoryError: the error about a history that cannot be read is shown.
func TestHistoryError(t *testing.T) {
	r := stateOf(t, "three").open(t, 100, 30, bare, func(o *Options) { o.Source.(*sample).history = errors.New("read the revisions: forbidden") })
	r.press("h")
	if !strings.Contains(r.text(), "read the revisions: forbidden") {
		t.Errorf("the error is not shown:\n%s", r.text())
	}
	if strings.Contains(r.text(), "open") {
		t.Errorf("a revision can be opened, but there is none:\n%s", r.text())
	}
	r.press("esc")
	if len(r.Modes) > 0 || r.state.History != nil {
		t.Error("esc does not close the history")
	}
}

// BenchmarkFrame scrolls through 1,000 releases. A frame must take at most 2 ms.
func BenchmarkFrame(b *testing.B) {
	r := stateOf(b, "thousand").open(b, 200, 50, dark)
	b.ResetTimer()
	for i := range b.N {
		key := tea.KeyPressMsg{Code: tea.KeyDown}
		if i/900%2 == 1 {
			key.Code = tea.KeyUp
		}
		r.Update(key)
		r.View()
	}
}

// BenchmarkSnapshot shows a new snapshot of 1,000 releases.
func BenchmarkSnapshot(b *testing.B) {
	r := stateOf(b, "thousand").open(b, 200, 50, dark)
	b.ResetTimer()
	for range b.N {
		r.Update(snapshotMsg{Snapshot{Listed: true, Releases: r.snapshot.Releases}, r.number})
		r.View()
	}
}

// TestFooterOrder: at 100 columns the footer has the keys that change a release, and the one for the helmfile here.
func TestFooterOrder(t *testing.T) {
	r := stateOf(t, "three").open(t, 100, 30, bare, func(o *Options) { o.Helmfile = true })
	lines := strings.Split(strings.TrimSpace(r.text()), "\n")
	footer := lines[len(lines)-1]
	for _, want := range []string{"u upgrade", "i install", "r roll back", "x uninstall", "U up", "h history", "? help"} {
		if !strings.Contains(footer, want) {
			t.Errorf("the footer has no %q: %s", want, footer)
		}
	}
}

// TestFailedElsewhere: home says that the last run has failed in a namespace that it does not show.
func TestFailedElsewhere(t *testing.T) {
	state := stateOf(t, "three")
	state.LastFailed = &PastRun{Key: Key{"data", "apps"}, Operation: "up"}
	r := state.open(t, 100, 30, bare)
	const said = "up of apps failed in namespace data: press 0 for all namespaces, P for past runs"
	if !strings.Contains(r.text(), said) {
		t.Errorf("home does not say where the last run failed:\n%s", r.text())
	}
	state.LastFailed = &PastRun{Key: Key{"shop", "pg"}, Operation: "upgrade"}
	if r := state.open(t, 100, 30, bare); strings.Contains(r.text(), "press 0 for all") {
		t.Errorf("home says what its table shows:\n%s", r.text())
	}
}

// TestRevisionSaysWhy: the description of a revision, such as why it failed, is whole at every size: in the heading, or else below it.
func TestRevisionSaysWhy(t *testing.T) {
	for _, size := range sizes {
		r := stateOf(t, "history").open(t, size[0], size[1], bare)
		r.press("down")
		if said := strings.Join(strings.Fields(strings.ReplaceAll(r.text(), "┃", "")), " "); !strings.Contains(said, `Upgrade "api" failed: Deployment/api: image cannot be pulled`) {
			t.Errorf("at %v:\n%s", size, r.text())
		}
	}
}

// TestPastRunsThatAreLive: a run that has not ended stands in the list of past runs as on home, its duration grows, and the list is read
// again once home no longer follows it.
func TestPastRunsThatAreLive(t *testing.T) {
	live := []PastRun{{Key: Key{"shop", "broken"}, Record: "a", Operation: "install", Context: "prod-eu", Started: now.Add(-90 * time.Second), Took: time.Second, Live: true, Status: event.Running}}
	source := &sample{past: live}
	follow := []LiveRun{{Key: Key{"shop", "broken"}, Operation: "install", Status: event.Degraded, Why: "Deployment/api: crashes"}}
	clock := now
	r := state{Snapshot: Snapshot{Listed: true, Runs: follow}, keys: "P"}.open(t, 120, 30, bare, func(o *Options) {
		o.Source, o.Now = source, func() time.Time { return clock }
	})
	for took, pass := range map[string]time.Duration{"1:30": 0, "2:30": time.Minute} {
		clock = now.Add(pass)
		r.send(tickMsg{})
		if s := r.text(); !strings.Contains(s, took) || !strings.Contains(s, "degraded: Deployment/api: crashes") {
			t.Errorf("no %q, or not degraded:\n%s", took, s)
		}
	}
	source.past = []PastRun{{Key: Key{"shop", "broken"}, Record: "a", Operation: "install", Context: "prod-eu", Started: now, Took: 3 * time.Minute, Status: event.Aborted}}
	r.send(snapshotMsg{Snapshot{Listed: true}, r.number})
	r.send(pastTickMsg{})
	if s := r.text(); !strings.Contains(s, "3:00") || !strings.Contains(s, "aborted") {
		t.Errorf("the end of the run is not shown:\n%s", s)
	}
}
