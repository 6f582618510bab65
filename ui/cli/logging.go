package cli

import (
	"log"
	"log/slog"
	"os"

	"k8s.io/klog/v2"
)

// quietLogs keeps the logs of the libraries from the terminal, where they would
// tear the screen; with --debug they go to stderr. What matters comes as an
// event or as an error.
func quietLogs(debug bool) {
	handler := slog.DiscardHandler
	if debug {
		handler = slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})
	}
	logger := slog.New(handler)
	slog.SetDefault(logger) // package log writes to it as well
	log.SetFlags(0)
	klog.SetSlogLogger(logger)
}
