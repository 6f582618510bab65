package command

import (
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/klog/v2"

	"lockstep/kube/mask"
	"lockstep/ui/report"
)

// Logs receives the logs of all libraries. It drops them, or with --debug writes them to stderr.
type Logs struct {
	debug bool

	mu   sync.Mutex
	out  io.Writer
	mask func(string) string // hides secret values
}

// Configure redirects the logs of all libraries.
func (l *Logs) Configure(debug bool) {
	l.debug, l.out, l.mask = debug, report.Safe(os.Stderr), new(mask.Mask).Text
	handler := slog.DiscardHandler
	if debug {
		handler = slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})
	}
	logger := slog.New(handler)
	slog.SetDefault(logger) // also redirects package log
	log.SetFlags(0)
	klog.SetSlogLogger(logger)
}

// Debug reports whether logs are kept.
func (l *Logs) Debug() bool { return l.debug }

// Write writes an entry to the current output.
func (l *Logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.out.Write([]byte(l.mask(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Hide adds a function that hides secret values in later entries, such as those of one release of a stack.
func (l *Logs) Hide(mask func(string) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	others := l.mask
	l.mask = func(s string) string { return mask(others(s)) }
}

// debugLog is the name of the file with the logs of the last screen, in the parent directory of the
// records.
const debugLog = "debug.log"

// ToFile redirects the logs to a file while the screen uses the terminal. If the file cannot be
// created, they are dropped. restore redirects them to stderr again and prints the file's name.
func (l *Logs) ToFile(notices report.Notices) (restore func()) {
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
		l.redirect(report.Safe(os.Stderr))
		if err != nil {
			notices.Warn("cannot write the screen's debug log: " + err.Error())
			return
		}
		_ = file.Close() // a debug log may be incomplete
		notices.Note("debug log: " + file.Name())
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
