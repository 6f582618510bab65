package screen

import (
	"context"
	"sync"

	"lockstep/kube"
	"lockstep/ui/board"
)

// Later opens a view of a release for board.Options.Later. Wait returns once the view has
// ended, which it does with the screen.
func Later(client *kube.Client, release, namespace string) (open func(context.Context) (board.Source, error), wait func()) {
	var running sync.WaitGroup
	open = func(ctx context.Context) (board.Source, error) {
		view, err := client.PrepareView(ctx, release, namespace, 0)
		if err != nil {
			return nil, err
		}
		source := view.Feed().Reader()
		running.Go(func() { _ = view.Run(ctx) }) // the screen says that it is not live any more
		return source, nil
	}
	return open, running.Wait
}
