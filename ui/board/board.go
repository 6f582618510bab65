// Package board is the screen: it draws an operation as live columns of
// groups, and turns keys into commands.
//
// It is a consumer of events like any other. Its picture of the operation is
// event.State, it sends event.Command, and it knows nothing of Kubernetes: what
// only the cluster can tell comes through Inspector. Nothing on the screen is a
// guess: a key changes nothing until an event says so.
//
// How a frame is made:
//
//	events ─▶ picture (state, marks, numbers) ─▶ graph (columns and edges, static)
//	                          └▶ screen (where the user is) ─▶ regions, modes ─▶ canvas
//
// Only what is visible is drawn. Below are the layers, each of which imports only those
// before it; what is left here joins them, and is the one table of the board's keys.
//
//	canvas, keys, graph, picture, screen   what all share
//	header, cards, inspector, report, page, line, footer; columns, pane   regions, which draw
//	breakpoints, dialogs, edit, help, jump, palette, replay, steer   modes, on a stack
//
// A new mode is a folder with a keys.Mode, and a line in the table of keys.
package board

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/edit"
	"lockstep/ui/board/inspector"
	"lockstep/ui/board/replay"
)

// ErrTerminalGone is returned by Run when the terminal cannot be written to or
// read from any more, or has hung up.
var ErrTerminalGone = errors.New("the terminal was closed")

// Inspector answers what only the cluster knows about an object, and what the run
// does to it.
type Inspector = inspector.Answers

// What answers are made of, and what edits a run; each is documented where it is.
type (
	Editor    = edit.Editor
	Edited    = edit.Edited
	Altered   = edit.Altered
	Item      = inspector.Item
	Change    = inspector.Change
	LogLine   = inspector.LogLine
	LogSource = inspector.Source
	Pod       = inspector.Pod
	Field     = inspector.Field
	Action    = inspector.Action
	Nothing   = inspector.Nothing
)

// Options say what to show and where. Only Source is needed.
type Options struct {
	Source Source
	// Command gives an order to the run; it must not block. Nil makes the
	// screen read-only, without keys to steer with.
	Command func(event.Command)
	// Attached means that the run is another process's, which continues when the
	// screen is left.
	Attached bool
	// Inspector is asked for events, pods, logs and manifests. Nil: the
	// inspector shows only what the events of the run tell.
	Inspector Inspector
	// Release makes the screen that of a stack: it returns the inspector and kubectl's flags
	// for a release, by its Event.Scope. Nil for an operation on one release.
	Release func(scope string) (Inspector, []string)
	// Kubectl are kubectl's flags that lead to the cluster. Nil: by the context that
	// the operation names.
	Kubectl []string
	// Editor changes what the run continues with. Nil: nothing can be edited here.
	Editor Editor
	// AtQuit has a function called where the program ends at once, until it is undone.
	// Nil: nobody calls it.
	AtQuit func(func()) (undo func())
	// Restart prepares a restart on a new cluster, which happens once the screen is
	// closed. Nil if that is impossible.
	Restart func(context.Context) error
	// Next returns what the user may want to type when the operation is over, one
	// command a line; it may be nil.
	Next func(*event.State) []string
	// First means that the user has not seen the screen before: it says what is where.
	First bool
	// Later opens a view of the release once the operation is over, for a screen that
	// stays open (R34b). It ends with the context. Nil: what is shown stays as it was.
	Later func(context.Context) (Source, error)
	// Theme is the look. Where its Background is theme.Detect, the terminal
	// is asked.
	Theme theme.Options
	// Title names what is shown if there is no operation to name it, a
	// plan before anything is deployed for instance.
	Title string
	// Now is the clock, time.Now by default.
	Now func() time.Time
	// Input and Output are the terminal, standard input and output by
	// default.
	Input  io.Reader
	Output io.Writer
	// Environ is what the terminal's abilities are read from, the process's
	// own by default.
	Environ []string
	// record is played again, if there is one; see Replay.
	record []*replay.Player
}

// Run shows the operation until it is over and the user leaves, or until ctx
// ends, whose cause it then returns. A read-only screen can be left at any
// time. The terminal is as it was before when Run returns, after a panic too.
//
// Run ends with ErrTerminalGone on SIGHUP. SIGINT and SIGTERM from outside are
// left to the caller: they are an order to the run, not to the screen.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer onHangup(cancel)()

	var m tea.Model = newModel(ctx, o)
	if o.Release != nil {
		m = newStack(ctx, o)
	}
	opts := []tea.ProgramOption{
		tea.WithContext(ctx),
		tea.WithOutput(guardOutput(ctx, o.Output, cancel)),
		tea.WithoutSignalHandler(),
		tea.WithFPS(framesPerSecond),
	}
	if in := guardInput(o.Input, cancel); in != nil {
		opts = append(opts, tea.WithInput(in))
	}
	if o.Environ != nil {
		opts = append(opts, tea.WithEnvironment(o.Environ))
	}
	_, err := tea.NewProgram(m, opts...).Run()
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("screen: %w", cause)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, tea.ErrProgramPanic):
		return fmt.Errorf("screen: %w", err)
	}
	return fmt.Errorf("screen: %w: %w", ErrTerminalGone, err)
}

// Replay shows a recorded run again, read-only, back and forth. Source, Command and
// Now of the options are not used.
func Replay(ctx context.Context, p *replay.Player, o Options) error { return Run(ctx, o.replaying(p)) }

func (o Options) replaying(p *replay.Player) Options {
	o.Source, o.Command = nil, nil
	return o.recorded(p)
}

func (o Options) recorded(p *replay.Player) Options {
	o.record, o.Now = []*replay.Player{p}, p.Now
	return o
}

// Show shows what events have come to, read-only. Source, Command and Now of the
// options are not used.
func Show(ctx context.Context, events []event.Event, o Options) error {
	last := time.Time{}
	if len(events) > 0 {
		last = events[len(events)-1].Time
	}
	o.Source, o.Command, o.Now = &recordedEvents{events}, nil, func() time.Time { return last }
	return Run(ctx, o)
}
