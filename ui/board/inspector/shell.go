package inspector

import (
	"context"
	"errors"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/theme"
)

// Shells opens shells in containers. A Cluster may implement it.
type Shells interface {
	// Shell prepares a shell in a running container of the object's pods; an empty pod or container
	// means any. where names the container.
	Shell(ctx context.Context, o plan.Object, pod, container string) (shell tea.ExecCommand, where string, err error)
}

type (
	// shellMsg is the result of Shells.Shell.
	shellMsg struct {
		object plan.Object
		shell  tea.ExecCommand
		where  string
		err    error
	}
	// shellEnded is the result of a shell.
	shellEnded struct {
		where string
		err   error
	}
)

// WhyNoShell says why no shell can be opened, "" if one can.
func (i *Inspector) WhyNoShell() string {
	switch _, ok := i.cluster.(Shells); {
	case i.TargetObject() == nil:
		return "select an object first"
	case i.isStep():
		return "a hook of the file has no shell"
	case i.WhyNoPods() != "":
		return i.WhyNoPods()
	case !ok:
		return notConnected
	}
	return ""
}

// ShellMayHelp reports whether the target's problem may be inside a running container. The diagnosis of one that runs has its log. A
// failed Job runs none.
func (i *Inspector) ShellMayHelp() bool {
	o := i.TargetObject()
	if o != nil && o.Object.Kind == "Job" && o.Status == event.Failed {
		return false
	}
	return i.LogsMayHelp() && i.WhyNoShell() == "" && runsPods(o.Object) && (o.Details == nil || o.Details.ExitCode == nil && len(o.Details.Log) > 0)
}

// Shell opens a shell in the container selected in the logs, or else in the running container with
// the most trouble.
func (i *Inspector) Shell() tea.Cmd {
	ctx, shells, o := i.ctx, i.cluster.(Shells), i.TargetObject().Object
	var at event.Source
	if i.Shown {
		at = i.logs.only
	}
	return func() tea.Msg {
		shell, where, err := shells.Shell(ctx, o, at.Pod, at.Container)
		return shellMsg{o, shell, where, err}
	}
}

// runShell suspends the screen until the shell ends, or says why there is none.
func (i *Inspector) runShell(msg shellMsg) tea.Cmd {
	why := inspect.Unavailable("")
	switch {
	case errors.As(msg.err, &why):
		return i.Explain("cannot open a shell in " + msg.object.String() + ": " + string(why))
	case msg.err != nil:
		return i.Say(theme.Bad, msg.err.Error())
	}
	return tea.Exec(msg.shell, func(err error) tea.Msg { return shellEnded{msg.where, err} })
}

// endShell says that a shell was closed, or why it failed.
func (i *Inspector) endShell(msg shellEnded) tea.Cmd {
	if msg.err != nil {
		return i.Say(theme.Bad, msg.err.Error())
	}
	return i.Say(theme.Quiet, "shell closed: "+msg.where)
}
