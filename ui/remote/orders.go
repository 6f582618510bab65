package remote

import (
	"fmt"
	"sync"

	"lockstep/ui/remote/protocol"
)

// maxWaiting is how many bytes of orders may wait for a run that takes none.
const maxWaiting = 4 * protocol.MaxOrder

// orders are lines that wait to be sent, in order. None that was put is dropped: it is
// sent, or the connection ends (R45).
type orders struct {
	ready chan struct{} // holds a token while lines wait

	mu    sync.Mutex
	lines [][]byte
	bytes int
}

func newOrders() *orders { return &orders{ready: make(chan struct{}, 1)} }

// put adds an order, unless it is longer than a run takes, or too many wait.
func (o *orders) put(order protocol.Order) error {
	line, err := order.Encode()
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bytes+len(line) > maxWaiting {
		return fmt.Errorf("the run takes no orders: %d of them wait; try again once it goes on, or see whether its process is stopped", len(o.lines))
	}
	o.lines, o.bytes = append(o.lines, line), o.bytes+len(line)
	select {
	case o.ready <- struct{}{}:
	default:
	}
	return nil
}

// take returns the lines that wait, and leaves none.
func (o *orders) take() [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.lines
	o.lines, o.bytes = nil, 0
	return lines
}
