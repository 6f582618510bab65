package command

import (
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/klog/v2"

	"lockstep/kube"
	"lockstep/ui/report"
)

// Logs is where the logs of libraries go: nowhere, or with --debug to stderr.
type Logs struct {
	debug bool

	mu   sync.Mutex
	out  io.Writer
	mask func(string) string // hides secret values; nil before the first is known
}

// Configure redirects the logs of all libraries.
func (l *Logs) Configure(debug bool) {
	l.debug = debug
	handler := slog.DiscardHandler
	if debug {
		handler = slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})
	}
	logger := slog.New(handler)
	slog.SetDefault(logger) // package log writes to it as well
	log.SetFlags(0)
	klog.SetSlogLogger(logger)
}

// Write writes an entry to the current target.
func (l *Logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out == nil {
		l.out = report.Safe(os.Stderr)
	}
	if l.mask == nil {
		l.mask = new(kube.Mask).Text
	}
	if _, err := l.out.Write([]byte(l.mask(string(p)))); err != nil { // an entry in one write
		return 0, err
	}
	return len(p), nil
}

// Hide hides secret values from now on.
func (l *Logs) Hide(mask func(string) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mask = mask
}

// debugLog holds the logs of the last screen, in the parent of the records' directory.
const debugLog = "debug.log"

// ToFile sends the logs to a file while a screen has the terminal; if the file cannot be
// created, they are dropped. restore sends them to stderr again and prints the file.
func (l *Logs) ToFile(say report.Notices) (restore func()) {
	if !l.debug {
		return func() {}
	}
	file, err := createDebugLog()
	if err != nil {
		l.redirect(io.Discard)
	} else {
		l.redirect(report.Safe(file))
	}
	return func() {
		l.redirect(nil)
		if err != nil {
			say.Warn("cannot write the screen's debug log: " + err.Error())
			return
		}
		_ = file.Close() // logs are not worth an error
		say.Note("debug log: " + file.Name())
	}
}

func (l *Logs) redirect(w io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = w
}

func createDebugLog() (*os.File, error) {
	dir, err := report.RunDir()
	if err != nil {
		return nil, err
	}
	dir = filepath.Dir(dir)
	if err := report.MakePrivate(dir); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, debugLog), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
}
