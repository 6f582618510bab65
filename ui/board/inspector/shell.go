package inspector

import (
	"context"
	"errors"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/plan"
	"lockstep/theme"
)

// Shells opens shells in containers. An Answers may implement it.
type Shells interface {
	// Shell prepares a shell in a running container of the object's pods; an empty pod or
	// container matches any. where names the container.
	Shell(ctx context.Context, o plan.Object, pod, container string) (shell tea.ExecCommand, where string, err error)
}

// ShellMsg is the result of Shells.Shell.
type ShellMsg struct {
	shell tea.ExecCommand
	where string
	err   error
}

// ShellEnded is the result of a shell.
type ShellEnded struct {
	where string
	err   error
}

// WhyNoShell says why no shell can be opened, or "".
func (r *Region) WhyNoShell() string {
	_, can := r.answers.(Shells)
	switch {
	case !can:
		return "no cluster to open a shell in"
	case r.Subject() == nil:
		return "select an object first"
	}
	return ""
}

// Shell opens a shell in the container that the logs are filtered by, or else in the
// running one with the most trouble.
func (r *Region) Shell() tea.Cmd {
	shells, o := r.answers.(Shells), r.Subject().Object
	var at Source
	if r.Shown && r.Tab == TabLogs {
		at = r.logs.only
	}
	ctx := r.ctx
	return func() tea.Msg {
		shell, where, err := shells.Shell(ctx, o, at.Pod, at.Container)
		return ShellMsg{shell, where, err}
	}
}

// RunShell suspends the screen until the shell ends.
func (r *Region) RunShell(msg ShellMsg) tea.Cmd {
	if nothing := Nothing(""); errors.As(msg.err, &nothing) {
		return r.Explain(string(nothing))
	}
	if msg.err != nil {
		return r.Say(theme.Bad, msg.err.Error())
	}
	return tea.Exec(msg.shell, func(err error) tea.Msg { return ShellEnded{msg.where, err} })
}

// EndShell says how a shell ended.
func (r *Region) EndShell(msg ShellEnded) tea.Cmd {
	if msg.err != nil {
		return r.Say(theme.Bad, msg.err.Error())
	}
	return r.Explain("shell ended: " + msg.where)
}
