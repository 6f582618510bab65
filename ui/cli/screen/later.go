package screen

import (
	"context"
	"sync"

	"lockstep/kube"
	"lockstep/ui/board"
)

// ViewAfterRun returns a function for board.Options.Later that opens a view of a release. The view
// ends with the screen; wait returns once it has ended.
func ViewAfterRun(client *kube.Client, release, namespace string) (open func(context.Context) (board.Source, error), wait func()) {
	var running sync.WaitGroup
	open = func(ctx context.Context) (board.Source, error) {
		view, err := client.PrepareView(ctx, release, namespace, 0)
		if err != nil {
			return nil, err
		}
		source := view.Feed().Reader()
		running.Go(func() { _ = view.Run(ctx) }) // the screen shows that the view has ended
		return source, nil
	}
	return open, running.Wait
}
