package remote

import (
	"fmt"
	"sync"

	"lockstep/ui/remote/protocol"
)

// maxQueued limits the requests waiting for a run that does not read them, in bytes.
const maxQueued = 4 * protocol.MaxRequest

// requestQueue is a queue of lines to send. No line is dropped while the connection is open (R45).
type requestQueue struct {
	ready chan struct{} // has an element while the queue is not empty

	mu    sync.Mutex
	lines [][]byte
	bytes int
}

func newRequestQueue() *requestQueue { return &requestQueue{ready: make(chan struct{}, 1)} }

// put adds a request. It returns an error if the request or the queue is too long.
func (o *requestQueue) put(request protocol.Request) error {
	line, err := request.Encode()
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

// take removes and returns all lines.
func (o *requestQueue) take() [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.lines
	o.lines, o.bytes = nil, 0
	return lines
}
