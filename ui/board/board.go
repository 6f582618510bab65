// Package board is the screen: it draws an operation as live columns of groups, and turns keys
// into commands. Its central type is Options; Run shows a run, Replay a record.
//
// It reduces events to an event.State and sends commands as event.Command. It does not import Kubernetes:
// pods, logs and live objects come from an inspect.Cluster. A key never changes the picture directly;
// only the resulting event does.
//
// How a frame is made:
//
//	events ─▶ event.State ─▶ graph (columns, edges) ─▶ picture (marks, counts)
//	       ─▶ screen (selection, view) ─▶ regions, modes ─▶ canvas
//
// Only visible parts are drawn. This package joins the packages below it, and holds the table of
// keys. Each of them imports only packages on the lines before its own:
//
//	canvas
//	graph, keys, wires
//	picture
//	screen                                      the state that all regions and modes share
//	cards, header, inspector                    regions of the screen
//	line, page                                  modes for typing and for reading, which others build on
//	columns                                     the board: cards in columns, and the edges between them
//	breakpoints, dialogs, edit, jump, palette   modes, stacked on top
//	replay                                      plays a record
//
// A new mode needs a package with a keys.Mode, a field in modes and a line in the table of keys.
package board

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/theme"
	"lockstep/ui/board/edit"
	"lockstep/ui/board/replay"
)

// ErrTerminalGone is returned by Run when the terminal hung up or can no longer be read or
// written.
var ErrTerminalGone = errors.New("the terminal is gone")

// ErrLeft is returned by Run when the user quit the screen and left the run running.
var ErrLeft = errors.New("the user left the run running")

// Options say what to show and where. Only Source is required.
type Options struct {
	Source Source
	// Command sends a command to the run; it must not block. Nil makes the screen read-only,
	// without the keys that control the run.
	Command func(event.Command)
	// Attached means that another process runs the operation; it continues when the user quits
	// the screen.
	Attached bool
	// StartedBy is who started that run, "" if that is unknown.
	StartedBy string
	// Inspector looks up events, pods, logs, manifests and changes in the cluster. Nil: the
	// inspector shows only data from the run's events.
	Inspector inspect.Cluster
	// Release returns the inspector and the kubectl flags for a release of a stack, by its
	// Event.Scope. Nil for an operation on one release.
	Release func(scope string) (inspect.Cluster, []string)
	// ComeBack is the command that attaches to the run after the user has left it running. "": quitting ends the run.
	ComeBack string
	// Unattended is how long a run that was left paused or held waits for somebody to attach.
	Unattended time.Duration
	// Context is the name of the cluster on this machine if the run is elsewhere; "" if the operation knows it.
	Context string
	// Kubectl holds the kubectl flags that select the cluster. Nil: the operation's context.
	Kubectl []string
	// Editor changes the values or the chart of a run. Nil: editing is disabled.
	Editor edit.Editor
	// AtQuit registers a function to call if the program exits at once; undo unregisters it.
	// May be nil.
	AtQuit func(func()) (undo func())
	// Restart prepares a restart on a new cluster; the caller restarts after the screen closes.
	// Nil if the run cannot be restarted.
	Restart func(context.Context) error
	// Next suggests commands to run after the operation, one per line; it may be nil.
	Next func(*event.State) []string
	// First shows a short introduction, for a user who has not seen the screen before.
	First bool
	// WatchAfter watches the release after the operation while the screen stays open,
	// until the context is done. Nil: the screen keeps its last state.
	WatchAfter func(context.Context) (Source, error)
	// Home is where quitting returns to, "home" or a part of it such as "the history"; "" for nowhere. Then esc leads there, too, and
	// leaves a live run running.
	Home string
	// Theme is the look. With theme.Detect as its Background, the screen asks the terminal.
	Theme theme.Options
	// Title is shown if the operation has no name, for instance for a plan.
	Title string
	// Now is the clock, time.Now by default.
	Now func() time.Time
	// Input and Output are the terminal, standard input and output by default.
	Input  io.Reader
	Output io.Writer
	// Environ describes the terminal; the process's environment by default.
	Environ []string
	record  *replay.Player // the run to replay, if any; see Replay
	leave   func()         // called when the user leaves the run running
}

// Run shows the operation until it is over and the user quits, or until ctx is done, in which
// case it returns ctx's cause. The user can quit a read-only or attached screen at any time. After the
// Stop command or a restart, the screen quits by itself once the run is over. Run restores the terminal
// before it returns, even after a panic.
//
// Run returns ErrLeft if the user left the run running, and ErrTerminalGone on SIGHUP. SIGINT and SIGTERM are left to the caller: they are
// meant for the run, not for the screen.
func Run(ctx context.Context, o Options) error {
	left := false
	o.leave = func() { left = true }
	err := RunModel(ctx, Terminal{o.Input, o.Output, o.Environ}, func(ctx context.Context) tea.Model {
		if o.Release != nil || o.replaysStack() {
			return newStack(ctx, o)
		}
		return newModel(ctx, o)
	})
	if err == nil && left {
		return ErrLeft
	}
	return err
}

// Terminal is where a screen is shown: standard input and output, and the environment of the process, by default.
type Terminal struct {
	Input   io.Reader
	Output  io.Writer
	Environ []string
}

// RunModel runs a model until it quits or ctx is done, as Run does. The context of the model ends with it.
func RunModel(ctx context.Context, t Terminal, open func(context.Context) tea.Model) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer onHangup(cancel)()
	opts := []tea.ProgramOption{
		tea.WithContext(ctx),
		tea.WithOutput(guardOutput(ctx, t.Output, cancel)),
		tea.WithoutSignalHandler(),
		tea.WithFPS(framesPerSecond),
	}
	if in := guardInput(t.Input, cancel); in != nil {
		opts = append(opts, tea.WithInput(in))
	}
	if t.Environ != nil {
		opts = append(opts, tea.WithEnvironment(t.Environ))
	}
	_, err := tea.NewProgram(open(ctx), opts...).Run()
	switch cause := context.Cause(ctx); {
	case cause != nil:
		err = cause
	case err == nil:
		return nil
	case !errors.Is(err, tea.ErrProgramPanic):
		err = fmt.Errorf("%w: %w", ErrTerminalGone, err)
	}
	return fmt.Errorf("screen: %w", err)
}

// Replay plays a recorded run, read-only, forwards and backwards. It ignores Source,
// Command and Now.
func Replay(ctx context.Context, p *replay.Player, o Options) error { return Run(ctx, o.replaying(p)) }

func (o Options) replaying(p *replay.Player) Options {
	o.Source, o.Command, o.record, o.Now = nil, nil, p, p.Now
	return o
}

// replaysStack reports whether the screen replays a record of a stack.
func (o Options) replaysStack() bool {
	if o.record == nil {
		return false
	}
	op := o.record.Events()[0].Operation
	return op != nil && op.IsStack()
}

// Show shows the state after the events, read-only. It ignores Source, Command and Now.
func Show(ctx context.Context, events []event.Event, o Options) error {
	last := time.Time{}
	if len(events) > 0 {
		last = events[len(events)-1].Time
	}
	o.Source, o.Command, o.Now = &recordedEvents{events}, nil, func() time.Time { return last }
	return Run(ctx, o)
}
