package remote

import (
	"encoding/json"
	"fmt"
	"sync"
)

// orders are lines that wait to be sent, in order. Any number may wait, since an order
// that was taken must not get lost (R45).
type orders struct {
	ready chan struct{} // holds a token while lines wait
	*lineQueue
}

type lineQueue struct {
	mu    sync.Mutex
	lines [][]byte
}

func newOrders() orders { return orders{make(chan struct{}, 1), &lineQueue{}} }

// put adds an order, unless it is longer than a run takes.
func (o orders) put(order any) error {
	line, err := json.Marshal(order)
	if err != nil {
		return err
	}
	if len(line) >= longestCommand {
		return fmt.Errorf("the command takes %.1f MiB, and a run takes no more than %d MiB: give fewer values, or start the upgrade with them", float64(len(line))/(1<<20), longestCommand>>20)
	}
	o.mu.Lock()
	o.lines = append(o.lines, append(line, '\n'))
	o.mu.Unlock()
	select {
	case o.ready <- struct{}{}:
	default:
	}
	return nil
}

// take returns the lines that wait, and leaves none.
func (o orders) take() [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.lines
	o.lines = nil
	return lines
}
