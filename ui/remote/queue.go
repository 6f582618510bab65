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
func (q *requestQueue) put(request protocol.Request) error {
	line, err := request.Encode()
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+len(line) > maxQueued {
		return fmt.Errorf("the run does not respond: %d commands are waiting; try again later, or check whether its process is stopped", len(q.lines))
	}
	q.lines, q.bytes = append(q.lines, line), q.bytes+len(line)
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return nil
}

// take removes and returns all lines.
func (q *requestQueue) take() [][]byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	lines := q.lines
	q.lines, q.bytes = nil, 0
	return lines
}
