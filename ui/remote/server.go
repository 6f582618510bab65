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
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/ui/remote/protocol"
)

const (
	stallTimeout = 30 * time.Second // a client that reads nothing for this time is disconnected
	closeTimeout = 2 * time.Second  // time for clients to read the last events
	acceptDelay  = time.Second      // after a connection that could not be accepted
)

// Server lets other processes watch and control a run.
type Server struct {
	feed    *event.Feed
	screens *Screens
	command func(event.Command)
	changes inspect.ChangeSource // may be nil
	editor  inspect.Editor       // may be nil
	socket  net.Listener
	path    string
	serving sync.WaitGroup

	mu      sync.Mutex
	closing bool // no new clients
	conns   map[net.Conn]bool
}

// Serve opens a socket in a directory, which it creates if necessary. command must not block.
// changes and editor, which may be nil, answer queries about objects and edits; they may be called
// concurrently. The caller closes the Server.
//
// Rule R47: other processes control a run through a private socket of the user.
func Serve(dir string, feed *event.Feed, screens *Screens, command func(event.Command), changes inspect.ChangeSource, editor inspect.Editor) (*Server, error) {
	if err := makePrivateDir(dir); err != nil {
		return nil, fmt.Errorf("directory of sockets: %w", err)
	}
	short, done, err := shortPath(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	name := fmt.Sprintf("%d-%s", os.Getpid(), rand.Text()[:8])
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short, name), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("open a socket: %w", err)
	}
	socket.SetUnlinkOnClose(false) // the short path may no longer exist
	s := &Server{feed: feed, screens: screens, command: command, changes: changes, editor: editor, socket: socket, path: filepath.Join(dir, name), conns: map[net.Conn]bool{}}
	if err = os.Chmod(s.path, 0o600); err == nil {
		err = os.Rename(s.path, s.path+suffix) // clients connect only to sockets with the suffix
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("open a socket: %w", err)
	}
	s.path += suffix
	go s.accept()
	return s, nil
}

// ServeRequests handles the requests from in until it ends. It is for a run in the cluster, whose log
// has its events. Replies are written to out, which is also that log, so they contain no values.
func ServeRequests(ctx context.Context, in io.Reader, out io.Writer, screens *Screens, command func(event.Command), changes inspect.ChangeSource, editor inspect.Editor) {
	if editor != nil {
		editor = withoutValues{editor}
	}
	s := &Server{screens: screens, command: command, changes: changes, editor: editor}
	s.handle(ctx, in, &lineWriter{w: out}, false)
}

// Close removes the socket and disconnects the clients, after giving them time to read the last
// events. Close the feed first.
func (s *Server) Close() {
	_ = s.socket.Close()
	_ = os.Remove(s.path) // on an error, clients remove it
	s.mu.Lock()
	s.closing = true // before Wait, so that no client is added
	s.mu.Unlock()
	served := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(served)
	}()
	select {
	case <-served:
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
		c, err := s.socket.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // for example too many open files
			time.Sleep(acceptDelay)
			continue
		}
		s.mu.Lock()
		if s.closing {
			_ = c.Close()
		} else {
			s.conns[c] = true
			s.serving.Go(func() { s.serve(c) })
		}
		s.mu.Unlock()
	}
}

// serve sends the events to a client and handles its requests, until it disconnects or the feed ends.
func (s *Server) serve(c net.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	defer func() {
		cancel()
		_ = c.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
	}()
	out := &lineWriter{w: c}
	go func() {
		defer cancel()
		s.handle(ctx, c, out, true)
	}()
	reader, caughtUp := s.feed.Reader(), "\n"
	for {
		events, more := reader.Next(ctx)
		if !more {
			return
		}
		for _, e := range events {
			line, err := json.Marshal(e)
			if err != nil || out.send(append(line, '\n')) != nil {
				return
			}
		}
		if out.send([]byte(caughtUp)) != nil {
			return
		}
		caughtUp = ""
	}
}

// send writes text. On a socket it fails if the client reads nothing for stallTimeout.
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

// lineWriter writes whole lines to a client. It is safe for concurrent use.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) send(text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return send(l.w, text)
}

// handle handles the requests of a client until it disconnects, or without a connection those of all clients. An invalid request
// gets an error as its reply (R45).
func (s *Server) handle(ctx context.Context, c io.Reader, out *lineWriter, connected bool) {
	requests, screen := protocol.NewDecoder(c), ""
	defer func() { s.screens.gone(screen) }()
	slots := make(chan struct{}, maxQueries)
	reply := func(r protocol.Reply) {
		if line, err := r.Encode(); err == nil {
			_ = out.send(line) // on an error, the client's query times out
		}
	}
	for {
		request, err := requests.Next()
		var bad *protocol.RequestError
		switch {
		case errors.As(err, &bad):
			reply(protocol.Reply{ID: bad.Request.ID, Command: bad.Request.Name, Error: bad.Error()})
		case err != nil:
			return
		case request.Type == protocol.ScreenOpen:
			if connected {
				screen = request.ID
			}
			s.screens.seen(request.ID, connected)
		case request.Type == protocol.ScreenClosed:
			s.screens.gone(request.ID)
		case request.Type != "":
			go func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				reply(s.answer(ctx, request))
			}()
		default:
			command := request.EventCommand()
			command.By = cmp.Or(request.By, event.AnotherTerminal)
			s.command(command)
		}
	}
}
