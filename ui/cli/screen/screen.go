package screen

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/theme"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
)

// planEvents returns the events of a run that is planned but has not started; op is nil for a chart alone.
func planEvents(op *event.Operation, phases []event.Phase, warnings []plan.Warning) []event.Event {
	events := []event.Event{{Kind: event.KindPlan, Operation: op, Phases: phases}}
	for _, w := range warnings {
		events = append(events, event.WarningEvent(w))
	}
	now := time.Now()
	for i := range events {
		events[i].Seq, events[i].Time = uint64(i+1), now
	}
	return events
}

// Open prepares the terminal for the screen and sets o.Theme. Call close after the screen has closed: it
// prints the warnings that could not be shown meanwhile.
func Open(a *command.App, cmd *cobra.Command, o *board.Options) (close func()) {
	o.Home = a.FromHome
	return OpenTheme(a, cmd, &o.Theme)
}

// OpenTheme is Open for another screen than the board.
func OpenTheme(a *command.App, cmd *cobra.Command, look *theme.Options) (close func()) {
	d := a.Display(cmd)
	var invalid error
	*look, invalid = theme.FromEnv(os.Getenv)
	restore := a.Logs.ToFile(d.Notices)
	discardInput()
	return func() {
		command.WarnIf(d.Notices, invalid)
		restore()
	}
}

// Show calls show, which opens the screen. It returns an error if the terminal is not suitable.
func Show(a *command.App, cmd *cobra.Command, o board.Options, show func(context.Context, board.Options) error) (err error) {
	if err := command.CheckScreen(); err != nil {
		return err
	}
	o.Home = a.FromHome
	o.Theme, err = theme.FromEnv(os.Getenv)
	command.WarnIf(a.Display(cmd).Notices, err)
	return show(cmd.Context(), o)
}

// ShowPlan shows a plan on the screen; op is nil for a chart alone.
func ShowPlan(a *command.App, cmd *cobra.Command, o board.Options, op *event.Operation, phases []event.Phase, warnings []plan.Warning) error {
	return Show(a, cmd, o, func(ctx context.Context, o board.Options) error {
		return board.Show(ctx, planEvents(op, phases, warnings), o)
	})
}

// maxFirstRead bounds the wait for the first state of each object, because some may not be readable.
const maxFirstRead = 10 * time.Second

// ViewAfterRun returns a function for board.Options.WatchAfter that opens a view of a release and waits until it has read
// the objects, so that the screen calls only what it shows live. The view ends with its context; wait waits for that.
func ViewAfterRun(client *kube.Client, release, namespace string) (open func(context.Context) (board.Source, error), wait func()) {
	var running sync.WaitGroup
	open = func(ctx context.Context) (board.Source, error) {
		view, err := client.PrepareView(ctx, release, namespace, 0)
		if err != nil {
			return nil, err
		}
		source := view.Feed().Reader()
		ended := make(chan struct{})
		running.Go(func() {
			defer close(ended)
			_ = view.Run(ctx) // the screen shows that the view has ended
		})
		select {
		case <-ended:
		case <-view.Seen():
		case <-time.After(maxFirstRead):
		case <-ctx.Done():
		}
		return source, nil
	}
	return open, running.Wait
}
