package remote

import (
	"fmt"
	"sync"

	"lockstep/ui/remote/protocol"
)

// maxQueued is how many bytes of orders may wait for a run that does not read them.
const maxQueued = 4 * protocol.MaxOrder

// orders is a queue of lines to send. None is dropped: it is sent, or the connection ends
// (R45).
type orders struct {
	ready chan struct{} // holds a token while the queue is not empty

	mu    sync.Mutex
	lines [][]byte
	bytes int
}

func newOrders() *orders { return &orders{ready: make(chan struct{}, 1)} }

// put adds an order, unless it or the queue is too long.
func (o *orders) put(order protocol.Order) error {
	line, err := order.Encode()
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bytes+len(line) > maxQueued {
		return fmt.Errorf("the run does not respond: %d commands are waiting; try again later, or check if its process is stopped", len(o.lines))
	}
	o.lines, o.bytes = append(o.lines, line), o.bytes+len(line)
	select {
	case o.ready <- struct{}{}:
	default:
	}
	return nil
}

// take empties the queue.
func (o *orders) take() [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.lines
	o.lines, o.bytes = nil, 0
	return lines
}
