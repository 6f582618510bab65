package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/board/inspector"
	"lockstep/ui/remote/protocol"
)

const (
	stallTimeout = 30 * time.Second // a client that reads nothing for so long is dropped
	closeTimeout = 2 * time.Second  // for clients to read the last events
)

// Server lets others watch and steer a run until it is closed.
type Server struct {
	feed    *event.Feed
	command func(event.Command)
	ahead   inspector.Foresight // may be nil
	editor  Editor              // may be nil
	l       net.Listener
	path    string
	clients atomic.Int64
	serving sync.WaitGroup

	mu    sync.Mutex
	ends  bool // no new clients
	conns map[net.Conn]bool
}

// Serve opens a socket in a directory, which it creates if necessary. command must not
// block. ahead and editor, which may be nil, answer questions about objects and edits,
// several at a time. Close the Server.
//
// Rule R47: a run is steered from outside through a private socket of the user.
func Serve(dir string, feed *event.Feed, command func(event.Command), ahead inspector.Foresight, editor Editor) (*Server, error) {
	if err := makePrivate(dir); err != nil {
		return nil, fmt.Errorf("directory of sockets: %w", err)
	}
	short, done, err := shortPath(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	name := fmt.Sprintf("%d-%s", os.Getpid(), rand.Text()[:8])
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short, name), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("open a socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // its path may be invalid by then
	s := &Server{feed: feed, command: command, ahead: ahead, editor: editor, l: l, path: filepath.Join(dir, name), conns: map[net.Conn]bool{}}
	if err = os.Chmod(s.path, 0o600); err == nil {
		err = os.Rename(s.path, s.path+suffix) // clients only find sockets with the suffix
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("open a socket: %w", err)
	}
	s.path += suffix
	go s.accept()
	return s, nil
}

// ServeOrders carries out the orders of in until it ends, for a run whose events everybody
// reads elsewhere. Replies are written to out, where others may read them, too: the values
// of the run are kept back.
func ServeOrders(ctx context.Context, in io.Reader, out io.Writer, command func(event.Command), ahead inspector.Foresight, editor Editor) {
	if editor != nil {
		editor = withoutValues{editor}
	}
	s := &Server{command: command, ahead: ahead, editor: editor}
	s.handle(ctx, in, &lines{c: out})
}

// Clients is the number of connected clients.
func (s *Server) Clients() int { return int(s.clients.Load()) }

// Close removes the socket. Clients have a moment to read the remaining events. Close the
// feed before.
func (s *Server) Close() {
	_ = s.l.Close()
	_ = os.Remove(s.path) // clients remove it otherwise
	s.mu.Lock()
	s.ends = true // before Wait, so that nobody is added
	s.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(closeTimeout):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
}

func (s *Server) accept() {
	for {
		c, err := s.l.Accept()
		if err != nil {
			return // closed
		}
		s.mu.Lock()
		if s.ends {
			_ = c.Close()
		} else {
			s.conns[c] = true
			s.serving.Go(func() { s.serve(c) })
		}
		s.mu.Unlock()
	}
}

// serve sends the events to a client and handles its orders until it disconnects or the
// feed ends.
func (s *Server) serve(c net.Conn) {
	s.clients.Add(1)
	ctx, gone := context.WithCancel(context.Background())
	defer func() {
		gone()
		s.clients.Add(-1)
		_ = c.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
	}()
	out := &lines{c: c}
	go func() {
		defer gone()
		s.handle(ctx, c, out)
	}()
	reader, present := s.feed.Reader(), "\n"
	for {
		events, more := reader.Next(ctx)
		if !more {
			return
		}
		for _, e := range events {
			line, err := json.Marshal(e)
			if err == nil {
				err = out.send(append(line, '\n'))
			}
			if err != nil {
				return
			}
		}
		if out.send([]byte(present)) != nil {
			return
		}
		present = ""
	}
}

// send writes text. It fails if the client of a socket reads nothing for stallTimeout.
func send(to io.Writer, text []byte) error {
	c, ok := to.(net.Conn)
	if !ok {
		_, err := to.Write(text)
		return err
	}
	for len(text) > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(stallTimeout)); err != nil {
			return err
		}
		n, err := c.Write(text[:min(len(text), 64<<10)])
		if err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// lines writes whole lines to a client. It may be used by several goroutines.
type lines struct {
	mu sync.Mutex
	c  io.Writer
}

func (l *lines) send(text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return send(l.c, text)
}

// handle passes on commands and answers questions until the client disconnects. An order
// that cannot be read gets the reason as its reply (R45).
func (s *Server) handle(ctx context.Context, c io.Reader, out *lines) {
	orders := protocol.NewDecoder(c)
	room := make(chan struct{}, maxAnswers)
	reply := func(r protocol.Reply) {
		if line, err := r.Encode(); err == nil {
			_ = out.send(line) // else the client is gone, or its question times out
		}
	}
	for {
		order, err := orders.Next()
		var bad *protocol.OrderError
		switch {
		case errors.As(err, &bad):
			reply(protocol.Reply{ID: bad.Order.ID, Command: bad.Order.Name, Error: bad.Error()})
		case err != nil:
			return
		case order.Ask != "":
			go func() {
				room <- struct{}{}
				defer func() { <-room }()
				reply(s.answer(ctx, order))
			}()
		default:
			command := order.Event()
			command.By = cmp.Or(order.By, "another terminal")
			s.command(command)
		}
	}
}
