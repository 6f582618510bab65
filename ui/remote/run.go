package remote

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/text"
	"lockstep/ui/remote/protocol"
)

// connectTimeout limits the time for connecting to a run and receiving its first event.
const connectTimeout = 10 * time.Second

// ErrLost means that the connection ended before the run, because the process of the run was killed or
// this process did not read for too long.
var ErrLost = errors.New("lost the connection to the run; attach again or, if its process was killed, repeat the command that started it")

// replyTimeout limits the time for a new pod of a run to reply to a command that was sent before it started.
const replyTimeout = 30 * time.Second

var errNoReply = errors.New("the pod of the run was replaced and the new one has not replied, so the command may be lost; check the state with " + text.Program + " ctl RELEASE status, then repeat the command")

// Run is a run in another process.
type Run struct {
	Operation event.Operation
	// By is who sends the commands: on this machine a user and a process, for a run in the cluster the name of this user. Set it
	// before the first command.
	By string

	conn     io.ReadWriteCloser
	feed     event.Feed
	caughtUp chan struct{} // closed when all past events have arrived
	ended    chan struct{} // closed when the connection ends
	err      error         // why the connection ended; set before ended is closed
	requests *requestQueue

	relay struct {
		sync.Mutex
		lastSeq uint64 // Seq of the last event of the run
	}

	mu      sync.Mutex
	pending map[string]chan protocol.Reply // by ID of the query
	waiting string                         // see Waiting
}

// Local reports whether the process of the run is on this machine. Other runs were found in a cluster.
func (r *Run) Local() bool {
	_, socket := r.conn.(net.Conn)
	return socket
}

// Runs connects to all runs with a socket in a directory, and removes the sockets of dead processes.
// The caller closes the runs.
func Runs(dir string) ([]*Run, error) {
	found, err := NewRuns(dir, func(string) bool { return false })
	return slices.SortedFunc(maps.Values(found), func(a, b *Run) int { return strings.Compare(a.String(), b.String()) }), err
}

// NewRuns is like Runs, but does not connect to the sockets that the caller knows. It returns the others by the names of their
// sockets.
func NewRuns(dir string, known func(socket string) bool) (map[string]*Run, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = checkPrivateDir(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("directory of sockets: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		info, err := e.Info()
		return known(e.Name()) || err != nil || filepath.Ext(e.Name()) != suffix || info.Mode().Type() != fs.ModeSocket || !ownedByUser(info)
	})
	if len(entries) == 0 {
		return nil, nil
	}
	short, done, err := shortPath(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	var dials sync.WaitGroup
	runs := make([]*Run, len(entries))
	for n, e := range entries {
		dials.Go(func() {
			var err error
			if runs[n], err = dial(filepath.Join(short, e.Name())); errors.Is(err, syscall.ECONNREFUSED) {
				_ = os.Remove(filepath.Join(dir, e.Name())) // another process may have removed it
			}
		})
	}
	dials.Wait()
	found := map[string]*Run{}
	for n, r := range runs {
		if r != nil { // else it has just ended, or does not respond
			found[entries[n].Name()] = r
		}
	}
	return found, nil
}

// dial connects to a run through a socket and reads its first event.
func dial(path string) (*Run, error) {
	conn, err := net.DialTimeout("unix", path, connectTimeout)
	if err != nil {
		return nil, err
	}
	var r *Run
	if err = conn.SetReadDeadline(time.Now().Add(connectTimeout)); err == nil {
		r, err = Connect(conn)
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connect to the run at %s: %w", path, err)
	}
	return r, nil
}

// Connect returns the run on the other side of a connection after receiving its first event. The
// Run closes conn; on an error, Connect does.
func Connect(conn io.ReadWriteCloser) (*Run, error) {
	r := &Run{conn: conn, caughtUp: make(chan struct{}), ended: make(chan struct{}), requests: newRequestQueue(), pending: map[string]chan protocol.Reply{}}
	lines := bufio.NewReader(conn)
	var err error
	for err == nil && len(r.feed.Events()) == 0 {
		err = r.readLine(lines)
	}
	if err == nil && r.feed.Events()[0].Operation == nil {
		err = errors.New("the first event is not an operation")
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	r.Operation = *r.feed.Events()[0].Operation
	go r.read(lines)
	go r.send()
	return r, nil
}

// readLine reads and handles a line: an event, a reply, or the empty line after all past events.
func (r *Run) readLine(lines *bufio.Reader) error {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(line)) == 0 {
		select {
		case <-r.caughtUp:
		default:
			close(r.caughtUp)
		}
		return nil
	}
	if reply, ok, err := protocol.DecodeReply(line); ok {
		if err == nil { // otherwise the query times out
			r.handleReply(reply)
		}
		return nil
	}
	var e event.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	r.SetWaiting("")
	r.relay.Lock()
	defer r.relay.Unlock()
	r.relay.lastSeq = e.Seq
	r.feed.Relay(e)
	return nil
}

// Waiting returns why no process executes the run at the moment, "" if one does as far as is known. A run in the cluster waits while it
// has no pod.
func (r *Run) Waiting() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting
}

// SetWaiting sets what Waiting returns until the next event of the run.
func (r *Run) SetWaiting(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = why
}

// read reads until the connection ends.
func (r *Run) read(lines *bufio.Reader) {
	for r.err == nil {
		r.err = r.readLine(lines)
	}
	var over interface { // nothing continues the run
		error
		RunOver()
	}
	if errors.As(r.err, &over) {
		r.add(event.Event{Kind: event.KindOperation, Status: event.Failed, Exit: new(event.ExitFailed), Message: phrase.RunOver(r.Operation, over.Error())})
	}
	close(r.ended) // before the feed ends, so that Lost is correct then
	r.feed.Close()
	_ = r.conn.Close()
}

// send sends the queued requests until the connection ends. If the run does not read them, send closes the
// connection, which also stops read. If the run has closed it, read may still have events to receive.
func (r *Run) send() {
	for {
		select {
		case <-r.requests.ready:
			for _, line := range r.requests.take() {
				err := send(r.conn, line)
				if err == nil || r.refuseLine(line, err) {
					continue
				}
				if errors.Is(err, os.ErrDeadlineExceeded) {
					_ = r.conn.Close()
				}
				return
			}
		case <-r.ended:
			return
		}
	}
}

// refuseLine refuses a request that could not be sent. It returns false if no later request can be sent
// either: a socket does not recover, but a connection to the cluster may.
func (r *Run) refuseLine(line []byte, why error) bool {
	var request protocol.Request
	if _, socket := r.conn.(net.Conn); socket || json.Unmarshal(line, &request) != nil {
		return false
	}
	r.handleReply(protocol.Reply{ID: request.ID, Command: request.Name, Error: why.Error()})
	return true
}

// Feed returns the events of the run. It ends when the run or the connection does.
func (r *Run) Feed() *event.Feed { return &r.feed }

// Command sends a command without blocking. The run replies with an event. If the command cannot be
// sent, Command adds a refusal to the feed.
func (r *Run) Command(c event.Command) {
	c.By = r.By
	if err := r.requests.put(protocol.CommandRequest(c)); err != nil {
		r.refuse(c, err.Error())
	}
}

// refuse adds the refusal of a command to the feed.
func (r *Run) refuse(c event.Command, reason string) {
	r.add(event.Event{Kind: event.KindCommand, Command: c.Name, Answers: c.ID, Phase: c.Phase, Group: c.Group, Status: event.Refused, Message: reason})
}

// Warn adds a warning about the run to the feed.
func (r *Run) Warn(message string) { r.add(event.Event{Kind: event.KindWarning, Message: message}) }

// add adds an event of this process to the feed.
func (r *Run) add(e event.Event) {
	r.relay.Lock()
	defer r.relay.Unlock()
	e.Seq, e.Time = r.relay.lastSeq, time.Now().UTC()
	r.feed.Relay(e)
}

// Do sends a command and waits for the event with its result. It fails if the command cannot be sent, if
// the run or the connection ends first (see Err), if ctx ends, or if the pod of the run is replaced and the
// new one does not reply within replyTimeout.
func (r *Run) Do(ctx context.Context, c event.Command) (event.Event, error) {
	c.ID, c.By = rand.Text(), r.By
	reader := r.feed.Reader()
	r.relay.Lock()
	sentAfter := r.relay.lastSeq
	r.relay.Unlock()
	if err := r.requests.put(protocol.CommandRequest(c)); err != nil {
		return event.Event{}, err
	}
	for {
		events, more := reader.Next(ctx)
		for _, e := range events {
			if e.Kind == event.KindCommand && e.Answers == c.ID {
				return e, nil
			}
			if e.Kind == event.KindOperation && e.Operation != nil && e.Scope == "" && e.Seq > sentAfter { // of a new pod
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, replyTimeout, errNoReply)
				defer cancel()
			}
		}
		switch {
		case more:
		case ctx.Err() != nil:
			return event.Event{}, context.Cause(ctx)
		case r.Err() != nil:
			return event.Event{}, r.Err()
		default:
			return event.Event{}, fmt.Errorf("the command came too late: %s", phrase.Result(r.Now(ctx)))
		}
	}
}

// Now returns the current state of the run, after receiving all past events.
func (r *Run) Now(ctx context.Context) *event.State {
	select {
	case <-r.caughtUp:
	case <-r.ended:
	case <-ctx.Done():
	}
	s := &event.State{}
	for _, e := range r.feed.Events() {
		s.Apply(e)
	}
	return s
}

// Err returns nil if the feed has the end of the run. Otherwise it returns ErrLost, or, if the connection
// knows how the run ended, an error with the method ExitCode. Call it after the feed has ended.
func (r *Run) Err() error {
	if slices.ContainsFunc(r.feed.Events(), func(e event.Event) bool { return e.Exit != nil && e.Scope == "" }) {
		return nil
	}
	<-r.ended
	if _, ok := r.err.(interface{ ExitCode() int }); ok {
		return r.err
	}
	return ErrLost
}

// Lost reports whether the connection ended before the run.
func (r *Run) Lost() bool {
	select {
	case <-r.ended:
		return r.Err() != nil
	default:
		return false
	}
}

// Close disconnects from the run. The run continues.
func (r *Run) Close() { _ = r.conn.Close() }

func (r *Run) String() string {
	text := fmt.Sprintf("%s %s in namespace %s", r.Operation.Name, r.Operation.Release, r.Operation.Namespace)
	if r.Operation.Context != "" {
		text += " of context " + r.Operation.Context
	}
	return text
}
