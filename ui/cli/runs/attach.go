package runs

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/connect"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/cli/screen"
	"lockstep/ui/remote"
	"lockstep/ui/report"
)

const attachLong = `Attach to a live run of another process on this machine, or of a Job in the cluster. In a terminal you get the run's own
screen and can control it; quitting it does not affect the run. Each screen shows how many others there are and what they do. Otherwise lockstep prints the run's
events from the start. Without RELEASE, attach joins the only live run.

A run on this machine is found first, unless it is known to be in a different cluster from the one that the kubeconfig selects. If
several runs in the cluster have the same name, as stacks from folders of the same name do, name the Job instead:
"lockstep runs --in-cluster" lists them. On this machine, name the path of the stack's helmfile or of its folder instead, or
one of its namespaces with -n.

Live runs listen on sockets in lockstep/live under $XDG_STATE_HOME (or ~/.local/state), readable only by their user.
Programs can use them: a socket sends the run's events ("lockstep help events"), with an empty line once it has caught
up, and accepts commands as JSON objects, one per line, with the fields command, group, phase and id. The event that reports the
result of a command has that id in its field answers.

Exit codes: the run's own if you watched it to the end, 0 if it is still running, 1 if the connection was lost, 2 if
there is no such run.`

func (a *app) newAttach() *cobra.Command {
	cmd := &cobra.Command{
		Use: "attach [RELEASE]", GroupID: "deploy", Short: "attach to a live run", Long: attachLong,
		Example: `lockstep attach shop
lockstep attach shop -o json | jq .message`,
		Args: command.Args(0, 1), ValidArgsFunction: completeLive,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.connectRun(cmd, firstArg(args), podLimit)
			if err != nil {
				return err
			}
			defer r.Close()
			return Attach(a.App, cmd, r, command.UseScreen(cmd), "")
		},
	}
	cmd.Flags().Bool("no-tui", false, "print lines instead of the screen")
	cmd.Flags().Duration("timeout", 0, "without the screen, how long to watch; 0 until the run ends")
	command.AddOutput(cmd)
	return cmd
}

// podLimit is how long attach waits for the pod of a run.
const podLimit = 5 * time.Minute

func firstArg(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// Attach shows a live run until it ends or the user quits. It returns the run's own error if
// the run has ended. afterQuit says what happens to the run if the user quits; "" if it continues.
func Attach(a *command.App, cmd *cobra.Command, r *remote.Run, onScreen bool, afterQuit string) error {
	d := a.Display(cmd)
	if onScreen {
		if err := ShowLive(a, cmd, r, r.Command); err != nil {
			return err
		}
	} else {
		closed := func() {}
		if r.Local() { // in the cluster, lines may be followed without the right to send requests
			closed = r.OpenScreen()
		}
		report.Watch(cmd.Context(), r.Feed(), d.Operation(report.Options{Steer: CtlCommand(r.Operation) + connectionFlags(cmd)}))
		closed()
	}
	s := r.Now(cmd.Context())
	switch {
	case s.Ended.IsZero() && r.Lost() && cmd.Context().Err() == nil: // a signal quits, and ends the connection
		return lostError(d, r.Err())
	case s.Ended.IsZero() && a.FromHome != "":
		return nil
	case s.Ended.IsZero():
		continues := "the run continues"
		if why := r.Waiting(); why != "" {
			continues = "no pod executes the run at the moment (" + why + ")"
		}
		d.Note(cmp.Or(afterQuit, continues+"; attach again: "+AttachCommand(cmd, r.Operation)))
		return nil
	}
	return command.OperationError(cmd, s, nil, onScreen)
}

// AttachCommand returns the command that attaches to a run, which cmd started or attached to.
func AttachCommand(cmd *cobra.Command, op event.Operation) string {
	return text.Program + " attach " + text.ShellWord(op.Release) + connectionFlags(cmd)
}

// connectionFlags returns the flags of a command that select the cluster and the namespace, with a leading
// space. attach and ctl need them again to find a run in the cluster.
func connectionFlags(cmd *cobra.Command) string {
	var line []string
	command.VisitSetFlags(cmd, func(name string, words []string) {
		if name == "namespace" || command.SelectsCluster(cmd, name) {
			line = append(line, words...)
		}
	}, nil)
	if line == nil {
		return ""
	}
	return " " + command.ShellJoin(line)
}

// ShowLive shows a live run on the screen, then prints its state. If send is nil, the screen is
// read-only.
func ShowLive(a *command.App, cmd *cobra.Command, r *remote.Run, send func(event.Command)) error {
	o := board.Options{Source: r.Feed().Reader(), Command: send, Attached: true, Inspector: screen.Disconnected{ChangeSource: r}}
	defer screen.Open(a, cmd, &o)()
	if r.Local() { // others cannot open its socket
		o.StartedBy = kube.Self()
	}
	wait := func() {}
	if r.Operation.IsStack() {
		client := ClientFor(cmd.Context(), a, r)
		if client != nil && !r.Local() {
			o.Context = client.ContextName()
		}
		o.Release = func(scope string) (inspect.Cluster, []string) {
			changes := screen.NoChanges("only the terminal of the run shows this")
			namespace, name, ok := strings.Cut(scope, "/")
			if client == nil || !ok || strings.Contains(name, "/") { // in another context
				return screen.Disconnected{ChangeSource: changes}, nil
			}
			return liveRelease{client, name, namespace}.inspector(changes), client.KubectlFlags()
		}
	} else {
		if send != nil {
			o.Editor = liveEditor{r}
		}
		if client := ClientFor(cmd.Context(), a, r); client != nil {
			live := liveRelease{client, r.Operation.Release, r.Operation.Namespace}
			o.Inspector, o.Kubectl = live.inspector(r), client.KubectlFlags()
			if !r.Local() {
				o.Context = client.ContextName()
				if send != nil {
					o.Editor = &clusterEditor{liveEditor: liveEditor{r}, release: live}
				}
			}
			o.WatchAfter, wait = screen.ViewAfterRun(client, r.Operation.Release, r.Operation.Namespace)
		}
	}
	closed := func() {}
	if send != nil || r.Local() { // else the user may not send requests
		closed = r.OpenScreen()
	}
	err := board.Run(cmd.Context(), o)
	closed()
	wait()
	if cmd.Context().Err() != nil {
		err = nil // a signal quits, as the key q does
	}
	switch now := r.Now(cmd.Context()); {
	case now.Ended.IsZero() && a.FromHome != "": // home shows the run
	case now.Ended.IsZero():
		err = errors.Join(err, a.Display(cmd).Show(report.NewRunStatus(now)))
	default:
		a.Summary(cmd, now, report.Options{})
	}
	return err
}

// liveEditor edits a live run. The run's process does the rendering and planning (R46, R47).
type liveEditor struct{ *remote.Run }

// ChartChanged returns false: only the run's process can see its chart.
func (e liveEditor) ChartChanged() bool { return false }

func (e liveEditor) Save(values string) (string, error) {
	return input.SaveValues(e.Operation.Release, values)
}

// clusterEditor edits a live run in the cluster. Its values are not in its log, where others could read them; they are read
// from the record of the release.
type clusterEditor struct {
	liveEditor
	release  liveRelease
	defaults string // the end of the file that the user edits
}

func (e *clusterEditor) Values(ctx context.Context, all bool) (string, error) {
	if all {
		return "", inspect.Unavailable("a run in the cluster does not merge the chart's defaults; press e to edit your own values, with the defaults as comments")
	}
	view, err := e.release.view(ctx)
	if err != nil {
		return "", err
	}
	e.defaults = ""
	if defaults := view.Defaults(); defaults != "" {
		e.defaults = "\n" + defaults
	}
	file, err := input.ValuesFile(e.header(), view.Values())
	return file + e.defaults, err
}

// header returns the comment at the top of the file that the user edits.
func (e *clusterEditor) header() string { return input.ValuesHeader(e.Operation.Release) }

// Edit leaves out the defaults: the command may not be long, and the run does not need them.
func (e *clusterEditor) Edit(ctx context.Context, values string, all bool) (inspect.Edited, error) {
	return e.liveEditor.Edit(ctx, strings.TrimSuffix(values, e.defaults), all)
}

func (e *clusterEditor) UserValues(_ context.Context, values string, _ bool) (string, error) {
	return strings.TrimSuffix(strings.TrimPrefix(values, e.header()), e.defaults), nil
}

// ClientFor connects to a run's cluster. It returns nil unless the kubeconfig selects that cluster, whatever the context is
// called (S10).
func ClientFor(ctx context.Context, a *command.App, r *remote.Run) *kube.Client {
	client, err := a.Connect()
	if err != nil {
		return nil
	}
	if !r.Local() { // the kubeconfig led to it
		return client
	}
	if same, _ := SameCluster(ctx, client, r); !same {
		return nil
	}
	return client
}

// SameCluster reports whether a run on this machine is in the cluster of a connection, and whether that is certain.
func SameCluster(ctx context.Context, client *kube.Client, r *remote.Run) (same, certain bool) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	var there connect.Signs
	if text, err := r.Cluster(ctx); err != nil || there.UnmarshalText([]byte(text)) != nil {
		return false, false
	}
	return client.SameCluster(ctx, there)
}

// clusterTimeout limits the requests that compare the clusters of a run and of the kubeconfig.
const clusterTimeout = 5 * time.Second

// liveRelease looks at a release of a run in another process with this user's kubeconfig and rights.
type liveRelease struct {
	client          *kube.Client
	name, namespace string
}

// view reads the newest record of the release.
func (l liveRelease) view(ctx context.Context) (*kube.View, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	return l.client.PrepareView(ctx, l.name, l.namespace, 0)
}

// inspector returns an inspector that asks the run and its cluster. It asks only the run while
// the release has no readable record, because the record is needed to hide secret values.
func (l liveRelease) inspector(changes inspect.ChangeSource) inspect.Cluster {
	return &lateInspector{ChangeSource: changes, prepare: func(ctx context.Context) (inspect.Cluster, error) {
		view, err := l.view(ctx)
		if err != nil {
			return nil, err
		}
		return screen.NewFollowingInspector(changes, l.client.Diagnoser(), view), nil
	}}
}

// lostError returns the error of attach if the events ended before the run. It has the exit code of
// the run if that is known.
func lostError(d report.Display, err error) error {
	var known interface{ ExitCode() int }
	switch {
	case !errors.As(err, &known):
		return command.Exit(command.ExitFailed, err)
	case known.ExitCode() == 0:
		d.Note(err.Error())
		return nil
	}
	return command.Exit(known.ExitCode(), err)
}

// CtlCommand returns the command that controls a run from a script.
func CtlCommand(op event.Operation) string {
	return text.Program + " ctl " + text.ShellWord(op.Release)
}
