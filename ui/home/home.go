// Package home is the screen that lockstep opens without a command: the live runs and the releases of a namespace, and the keys
// that start what can be done with them. Its central types are Options, Source and Request.
//
// Home starts nothing itself. It ends with a command line of lockstep; the caller runs it, in the same terminal, and opens home
// again with the same State. So a screen that was opened from home returns to it, and a command that a user sees is the one
// that runs.
//
// A form (package ui/home/form) asks for what a command line needs. Home opens it as a mode, on top of itself:
//
//   - Options.Form makes it. It gets the Screen to draw on, a Request with what the user selected, and done.
//   - It is a keys.Mode: Keys and Update get the keys while it is on top, Draw draws over home. Messages of the form's own
//     commands arrive in Update, too. If it implements keys.Cursor, the terminal's cursor is shown. It may open further modes
//     on Screen.Modes.
//   - It calls done with the arguments of a command line, such as "upgrade", "shop", "./chart", and returns the result: home ends
//     with them. It calls done with nil to close without a command. Home adds the flags that select the cluster, but not the
//     namespace.
//
// Options.Open opens a form at once, for a command whose arguments are missing; home ends when it is closed.
//
// Package home imports neither Kubernetes nor Helm. It uses the packages of the board that know nothing of a run: canvas, keys,
// screen, line and page.
package home

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/theme"
	"lockstep/ui/board"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/screen"
)

// Options say what to show. Source and State are required.
type Options struct {
	Source Source
	// State is where the user is. Run changes it.
	State *State
	// Context is the name of the cluster's context.
	Context string
	// Form makes the form for a request, see the package comment. Nil: there are no forms.
	Form func(s *screen.Screen, r Request, done func(args []string) tea.Cmd) keys.Mode
	// Helmfile means that there is a helmfile in the current directory.
	Helmfile bool
	// Open is the request whose form is open at first; home ends with it. May be nil.
	Open *Request
	// Notice is what the last command said at its end, and its role. "" for nothing.
	Notice     string
	NoticeRole theme.Role
	Theme      theme.Options
	// Now is the clock, time.Now by default.
	Now func() time.Time
	// Terminal is the terminal of the process by default.
	Terminal board.Terminal
}

// State is where the user is in home. It outlives a command that home ended with.
type State struct {
	Namespace string // the namespace that is shown
	All       bool   // all namespaces are shown
	Filter    string
	Sort      Sort
	Selected  string     // the ID of the selected row
	History   *Key       // the release whose history is open, nil for none
	Revision  int        // the revision that is selected in the history
	Past      *PastState // nil unless the past runs are open
}

// PastState is where the user is in the past runs.
type PastState struct {
	Filter   string
	Selected string // the name of a record
}

// Place names what is shown: "home", "the history" or "the past runs".
func (s *State) Place() string {
	switch {
	case s.Past != nil:
		return "the past runs"
	case s.History != nil:
		return "the history"
	}
	return "home"
}

// scope returns the namespace to follow, "" for all.
func (s *State) scope() string {
	if s.All {
		return ""
	}
	return s.Namespace
}

// Request is what a form is opened for.
type Request struct {
	// Operation is install, upgrade, rollback, uninstall or test.
	Operation string
	// Release and Namespace are those of the selected release. Of an install, Release is "".
	Release, Namespace string
	// Revision is the one that was selected in the history: to roll back to, or to upgrade with its values; else 0.
	Revision int
}

// Run shows home until the user quits, or starts a command: then it returns the arguments of its command line.
func Run(ctx context.Context, o Options) (args []string, err error) {
	var m *model
	err = board.RunModel(ctx, o.Terminal, func(ctx context.Context) tea.Model {
		m = newModel(ctx, o)
		return m
	})
	m.close()
	return m.args, err
}
