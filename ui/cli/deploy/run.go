package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/incluster"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/runs"
	"lockstep/ui/cli/screen"
	"lockstep/ui/remote"
	"lockstep/ui/report"
	"lockstep/ui/report/reportfile"
)

// runOperation runs an operation on the screen or as lines until it ends. If the user restarts it, it
// returns the operation to run next.
func (a *app) runOperation(cmd *cobra.Command, client *kube.Client, op *kube.Operation, spec operationSpec) (*operationSpec, error) {
	if spec.provenApprovals {
		end, err := op.ProveApprovals(cmd.Context(), nil, nil)
		if err != nil {
			return nil, suggestRoles(cmd, op.Info().Namespace, err)
		}
		defer end()
	}
	unordered := func(p event.Phase) bool { return p.Kind == event.PhaseApply && plan.Unordered(p.Groups) }
	if spec.unorderedNote != "" && op.Info().Name == "install" && slices.ContainsFunc(op.Phases(), unordered) {
		a.Display(cmd).Note(spec.unorderedNote)
	}
	var restart atomic.Pointer[operationSpec]
	changes := screen.Changes(op, client)
	r := displayedRun{
		runOptions: spec.runOptions, op: op, info: op.Info(), clients: []*kube.Client{client},
		changes: changes, hide: op.Mask().Text, manifests: op.Manifests,
		abortOutcome: cmp.Or(spec.abortOutcome, "the release will be marked failed"),
		next:         func(s *event.State) []string { return spec.next(s, op.Mask()) },
		board:        board.Options{Inspector: screen.NewInspector(changes, op.Diagnoser(), op.Mask()), Kubectl: client.KubectlFlags()},
	}
	if op.CheckEditable() == nil {
		r.board.Editor = editor{op, spec.dir, spec.saved}
	}
	if spec.reload != nil {
		r.board.Restart = func(ctx context.Context) error {
			values, err := op.Values(false)
			if err != nil {
				return err
			}
			reloaded, err := spec.reload(ctx, values)
			if err == nil {
				restart.Store(&reloaded)
			}
			return err
		}
	}
	r.board.WatchAfter, r.afterScreen = screen.ViewAfterRun(client, op.Info().Release, op.Info().Namespace)
	err := a.runDisplayed(cmd, r)
	return restart.Load(), err
}

// displayedRun is an operation, on one release or a stack, and how it is shown.
type displayedRun struct {
	runOptions
	op      command.Operation
	info    event.Operation
	clients []*kube.Client       // those of its clusters
	changes inspect.ChangeSource // may be nil
	hide    func(string) string  // hides secret values
	// manifests is for report.RunLog.KeepManifests; nil for none.
	manifests func(edits int) iter.Seq2[plan.Object, string]
	next      func(*event.State) []string // suggests commands to run afterwards
	// abortOutcome says what an abort without rollback does.
	abortOutcome string
	board        board.Options
	afterScreen  func() // called when the screen has closed
}

// runDisplayed runs an operation on the screen or as lines until it ends.
func (a *app) runDisplayed(cmd *cobra.Command, r displayedRun) error {
	d := a.Display(cmd)
	a.Logs.Hide(r.hide)
	r.board.First = firstRun()
	record := newRecord(d.Notices)
	record.KeepManifests(r.manifests)
	defer record.Close()
	opts := report.Options{Next: r.next, Record: record.Name, OmitReply: a.Signals.PrintsReply}
	screens := remote.NewScreens(r.op.Feed(), r.screen)
	server, err := serve(r, screens)
	if err != nil {
		return err
	}
	defer server.Close()
	var ownCluster *kube.Client // if this process runs in a Job: other machines attach without a connection to it
	for _, client := range r.clients {
		if in := client.Requests(cmd.Context()); in != nil {
			ownCluster = client
			go remote.ServeRequests(cmd.Context(), in, cmd.OutOrStdout(), screens, r.op.Command, r.changes, r.board.Editor)
		}
	}
	if server.Server != nil {
		opts.Steer = runs.CtlCommand(r.info)
		if command.CanReturnTerminal && !r.sandbox {
			r.board.ComeBack, r.board.Unattended = runs.AttachCommand(cmd, r.info), r.timeout()
		}
	}
	unattended := &unattendedTimer{timeout: r.timeout(), approval: r.approvalTimeout, attachable: true, end: endUnattended(r.op, r.rollbackOnSignal)}
	policy := command.SignalPolicy{Rollback: r.rollbackOnSignal, Hangup: r.hangup, Outcome: r.abortOutcome, Unattended: unattended.start}
	if ownCluster != nil {
		policy.NoNextPod = func() string { return noNextPod(cmd.Context(), ownCluster) }
	}
	var notices *report.Notices
	if !r.screen {
		notices = &d.Notices
		if ownCluster == nil {
			unattended.start()
		}
	}
	if err := a.Signals.Bind(r.op, policy, notices); err != nil {
		return err
	}
	defer a.Signals.Unbind()
	defer r.follow.listen(r.clients)()
	var state *event.State
	if r.screen {
		after := r.afterScreen
		r.afterScreen = func() { screens.OwnClosed(); after() }
		state, err = a.runOnScreen(cmd, r, opts, server.Close, append(r.follow.consumers(), record, a.Signals, unattended, screens)...)
	} else {
		changes := &approvalChanges{ctx: cmd.Context(), changes: r.changes, feed: r.op.Feed()}
		consumers := append(r.follow.consumers(), record, d.Operation(opts), a.Signals, unattended, changes) // Signals after the log, for OmitReply
		state, err = run(r.op, consumers...)
	}
	command.WarnIf(d.Notices, r.follow.Report(reportfile.NewOutcome(state, r.next(state))))
	return command.OperationError(cmd, state, err, r.screen)
}

// noNextPod returns why no pod of its Job will continue the run of this one, "" if one will.
func noNextPod(ctx context.Context, client *kube.Client) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // Kubernetes kills the pod soon
	defer cancel()
	job := client.DeletedJob(ctx)
	if job == "" {
		return ""
	}
	return "Job " + job + " was deleted"
}

// run runs an operation and passes its events to the consumers.
func run(op command.Operation, consumers ...report.Consumer) (*event.State, error) {
	result := make(chan error, 1)
	go func() {
		defer op.Feed().Close()
		result <- op.Run()
	}()
	state := report.Follow(op.Feed(), consumers...)
	return state, <-result
}

// runOnScreen runs an operation on the screen and prints its summary. It calls onEnd when the
// operation ends, which may be before the screen closes.
func (a *app) runOnScreen(
	cmd *cobra.Command, r displayedRun, opts report.Options, onEnd func(), consumers ...report.Consumer,
) (*event.State, error) {
	o := r.board
	defer screen.Open(a.App, cmd, &o)()
	var state *event.State
	var runErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		state, runErr = run(r.op, consumers...)
		a.Signals.Unbind()
		onEnd()
	}()
	o.Source, o.Command, o.AtQuit = r.op.Feed().Reader(), r.op.Command, a.Signals.AtQuit
	o.Next = func(s *event.State) []string { return nextLines(s, opts) }
	err := board.Run(cmd.Context(), o)
	r.afterScreen()
	switch {
	case errors.Is(err, board.ErrLeft):
		a.Signals.Leave()
		a.Display(cmd).Note("the run continues in the background; attach again: " + o.ComeBack)
		command.ReturnTerminal()
	case errors.Is(err, board.ErrTerminalGone):
		a.Signals.Hangup()
		command.DropTerminal()
	case err != nil && !errors.Is(err, command.ErrInterrupted):
		r.op.Command(event.Command{Name: event.Abort, Reason: err.Error()})
	}
	<-done
	a.Summary(cmd, state, opts)
	return state, runErr
}

// nextLines returns the commands that the screen suggests, including a replay.
func nextLines(s *event.State, opts report.Options) []string {
	lines := opts.Next(s)
	if name := opts.Record(); name != "" {
		lines = append(lines, text.Program+" replay "+name)
	}
	return lines
}

// firstRun reports whether no run has been recorded yet.
func firstRun() bool {
	dir, err := report.RunDir()
	if err != nil {
		return false
	}
	_, err = os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// newRecord starts the record of a run. If that fails, it prints a warning.
func newRecord(notices report.Notices) *report.RunLog {
	dir, err := report.RunDir()
	if err != nil {
		notices.Warn(fmt.Sprintf("this run is not recorded: %v; set XDG_STATE_HOME", err))
		return report.NewRunLog("", func(string) {})
	}
	return report.NewRunLog(dir, notices.Warn)
}

// server is the socket of an operation (R47). Server is nil if it could not be opened.
type server struct{ *remote.Server }

// serve opens the socket of an operation. If that fails, the operation runs without a socket,
// unless its controlFlag makes it wait for another terminal.
func serve(r displayedRun, screens *remote.Screens) (server, error) {
	dir, err := runs.LiveDir()
	if err == nil {
		var s *remote.Server
		if s, err = remote.Serve(dir, r.op.Feed(), screens, r.op.Command, r.changes, r.board.Editor); err == nil {
			return server{s}, nil
		}
	}
	if r.controlFlag == "" {
		return server{}, nil
	}
	return server{}, fmt.Errorf("%s needs the screen or a socket to control the run from another terminal: %w", r.controlFlag, err)
}

func (s server) Close() {
	if s.Server != nil {
		s.Server.Close()
	}
}

// runTask starts a task and attaches to it until it ends or the user quits.
func (a *app) runTask(cmd *cobra.Command, client *kube.Client, r runOptions, task incluster.Task) error {
	d := a.Display(cmd)
	job, err := client.StartTask(cmd.Context(), task)
	if err != nil {
		if errors.Is(err, kube.ErrNoAccount) {
			err = fmt.Errorf("%w: %s --service-account %s | kubectl apply -f -", err, rbacCommand(cmd, task.Namespace, "--in-cluster"), task.ServiceAccount)
		}
		return err
	}
	r.follow.elsewhere = true
	place, afterQuit := fmt.Sprintf("running in Job %s/%s", job.Namespace, job.Name), ""
	if r.sandbox {
		place += " of the throwaway cluster"
		afterQuit = "the throwaway cluster is deleted, and the run with it"
	} else {
		place += fmt.Sprintf("; attach from any machine: "+text.Program+" attach %s -n %s", text.ShellWord(job.Release), job.Namespace)
	}
	d.Note(place)
	run, err := runs.ConnectJob(cmd.Context(), client, job, r.timeout(), d.Note)
	if waited := (*incluster.WaitError)(nil); errors.As(err, &waited) {
		return neverStarted(cmd.Context(), job, waited)
	}
	if err != nil {
		if cmd.Context().Err() != nil { // a signal arrived before the first event
			return cancelTask(cmd.Context(), job, d, afterQuit)
		}
		return err
	}
	defer run.Close()
	run.By = job.By
	record := newRecord(d.Notices)
	record.By = job.By
	record.OfJob(job.Namespace + "/" + job.Name)
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		report.Watch(context.Background(), run.Feed(), record)
	}()
	err = a.attachToTask(cmd, r, run, afterQuit)
	run.Close()
	<-recorded
	record.Close()
	if state := run.Now(context.Background()); !state.Ended.IsZero() {
		command.WarnIf(d.Notices, r.follow.Report(reportfile.NewOutcome(state, nil)))
	}
	return err
}

// unwatched is the error of a command that no longer watches its run in the cluster.
type unwatched struct {
	why     string
	waiting string // remote.Run.Waiting
}

func (e *unwatched) Error() string {
	if e.waiting != "" {
		return e.why + "; no pod executes the run at the moment: " + e.waiting
	}
	return e.why + "; the run continues in the cluster"
}

// attachToTask attaches to a run in the cluster. Without the screen it gives up if the run waits for somebody for too long
// (R54); the run itself waits on, because others may see it on their screens.
func (a *app) attachToTask(cmd *cobra.Command, r runOptions, run *remote.Run, afterQuit string) error {
	ctx, giveUp := context.WithCancelCause(cmd.Context())
	defer giveUp(nil)
	defer cmd.SetContext(cmd.Context())
	cmd.SetContext(ctx)
	if !r.screen {
		timer := &unattendedTimer{timeout: r.timeout(), alone: true, end: func(why string, _ event.Status) {
			giveUp(&unwatched{why, run.Waiting()})
		}}
		go report.Watch(ctx, run.Feed(), timer)
	}
	err := runs.Attach(a.App, cmd, run, r.screen, afterQuit)
	if why, ok := errors.AsType[*unwatched](context.Cause(ctx)); err == nil && ok {
		return command.Exit(command.ExitFailed, why)
	}
	return err
}

// neverStarted deletes a run whose pod has not started within --timeout, and returns the error.
func neverStarted(ctx context.Context, job *incluster.Run, waited *incluster.WaitError) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	place := job.Namespace + "/" + job.Name
	switch deleted, err := job.DeleteUnlessStarted(ctx); {
	case err != nil:
		return command.Exit(command.ExitFailed, fmt.Errorf("%w (--timeout); Job %s may still start, because it could not be deleted: %w; delete it with: kubectl delete job %s -n %s", waited, place, err, job.Name, job.Namespace))
	case !deleted:
		return command.Exit(command.ExitFailed, fmt.Errorf("%w (--timeout); the run continues; attach with: "+text.Program+" attach %s -n %s", waited, job.Release, job.Namespace))
	}
	return fmt.Errorf("%w (--timeout); the Job was deleted, and nothing was deployed", waited)
}

// cancelTask deletes a run after a signal, unless its pod has started. See runs.Attach for afterQuit.
func cancelTask(ctx context.Context, job *incluster.Run, d report.Display, afterQuit string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	deleted, err := job.DeleteUnlessStarted(ctx)
	switch {
	case err != nil:
		return command.Exit(command.ExitFailed, fmt.Errorf("interrupted, but Job %[1]s/%[2]s may still run, because it could not be deleted: %[3]w; delete it with: kubectl delete job %[2]s -n %[1]s", job.Namespace, job.Name, err))
	case !deleted:
		d.Note(cmp.Or(afterQuit, "the run continues, because its pod has started; attach again: "+command.ShellJoin([]string{text.Program, "attach", job.Release, "-n", job.Namespace})))
		return nil
	}
	return command.ErrInterrupted
}
