// Command lockstep-sandbox runs a Kubernetes cluster in one process: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, and simulated nodes. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/pflag"

	"lockstep/kube/sandbox/command"
)

const usage = `Usage: lockstep-sandbox [flags] [-- COMMAND ARG...]

Runs a Kubernetes cluster with simulated nodes until it is interrupted. With COMMAND, it runs
COMMAND with KUBECONFIG set, stops when COMMAND exits, and returns COMMAND's exit code.

Flags:
`

const (
	exitFailed = 1
	exitUsage  = 2
)

type options struct {
	kubeconfig   string
	auditLog     string
	auditObjects bool
	dataDir      string
	nodes        int
	lockstepBin  string
	controlPlane string
	verbosity    int
	whileStdin   bool
	json         bool
	command      []string
}

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	o, err := parseOptions(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		printError(err)
		return exitUsage
	}
	if len(o.command) > 0 {
		if code, err := command.Check(o.command[0]); err != nil {
			printError(err)
			return code
		}
	}
	// A write to a closed stdout must not kill the sandbox before it has cleaned up. Ignoring SIGPIPE instead
	// would make COMMAND ignore it too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	in := &interrupts{cancel: cancel}
	in.watch()
	if o.whileStdin {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	code, err := runSandbox(ctx, o, in)
	if err != nil {
		printError(err)
	}
	return code
}

func parseOptions(args []string) (options, error) {
	var o options
	// Imported packages register dozens of flags on the global flag set.
	fs := pflag.NewFlagSet("lockstep-sandbox", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "write the kubeconfig to `FILE`; deleted on exit if it was new or from a sandbox")
	fs.StringVar(&o.auditLog, "audit-log", "", "append the API server's audit log to `FILE`, one JSON event per line")
	fs.BoolVar(&o.auditObjects, "audit-objects", false, "log the object of each write by a user, too, except CustomResourceDefinitions; the log then has Secrets")
	fs.StringVar(&o.dataDir, "data-dir", "", "keep the cluster in `DIR` and resume it at the next start (default: a temporary folder)")
	fs.IntVar(&o.nodes, "nodes", 2, "number of nodes")
	fs.StringVar(&o.lockstepBin, "lockstep-bin", "", "run `PROGRAM` as the containers of the lockstep image; \"\" simulates them (default: lockstep in this program's folder)")
	fs.StringVar(&o.controlPlane, "control-plane", "", "run the API server, controller manager and scheduler of `PROGRAM` (see kube/compat) instead of the embedded ones")
	fs.IntVarP(&o.verbosity, "v", "v", 0, "verbosity of the components' log, sandbox.log in the data folder")
	fs.BoolVar(&o.whileStdin, "while-stdin", false, "exit at the end of stdin, for example when the parent process exits")
	fs.BoolVar(&o.json, "json", false, "announce the ready cluster with one line of JSON")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Print(usage, fs.FlagUsages())
		}
		if value, ok := errors.AsType[*pflag.InvalidValueError](err); ok && errors.Is(err, strconv.ErrSyntax) && value.GetFlag().Value.Type() == "int" {
			return o, fmt.Errorf("--%s %s: must be a whole number; try --help", value.GetFlag().Name, value.GetValue())
		}
		return o, err
	}
	rest := fs.Args()
	if n := fs.ArgsLenAtDash(); n >= 0 {
		rest, o.command = rest[:n], rest[n:]
		if len(o.command) == 0 {
			return o, errors.New("no command after --")
		}
	}
	if !fs.Changed("lockstep-bin") {
		o.lockstepBin = siblingProgram("lockstep")
	} else if o.lockstepBin != "" {
		path, err := exec.LookPath(o.lockstepBin)
		if err == nil {
			o.lockstepBin, err = filepath.Abs(path)
		}
		if err != nil {
			return o, fmt.Errorf("--lockstep-bin: %w", err)
		}
	}
	switch {
	case len(rest) > 0:
		return o, fmt.Errorf("unexpected argument %q; a command goes after --, as in: lockstep sandbox -- %s", rest[0], strings.Join(rest, " "))
	case o.nodes < 1:
		return o, errors.New("--nodes must be at least 1")
	case len(o.command) > 0 && (o.whileStdin || o.json):
		return o, errors.New("--while-stdin and --json cannot be combined with a command: stdin and stdout belong to the command")
	}
	return o, nil
}

// siblingProgram returns the path of a program in the folder of this one, or "".
func siblingProgram(name string) string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	path, err := exec.LookPath(filepath.Join(filepath.Dir(self), name))
	if err != nil {
		return ""
	}
	return path
}

func printError(err error) {
	fmt.Fprintln(stderr, "lockstep-sandbox:", err)
}

// interrupts handles signals: the first one stops the sandbox cleanly, the second one immediately. While
// COMMAND runs, COMMAND gets the signals instead.
type interrupts struct {
	cancel func()

	mu      sync.Mutex
	command *command.Command
	first   syscall.Signal
	cleanup func()
}

func (in *interrupts) watch() {
	c := make(chan os.Signal, 8)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(c, syscall.SIGHUP)
	}
	go func() {
		for s := range c {
			in.handle(s.(syscall.Signal))
		}
	}()
}

func (in *interrupts) handle(s syscall.Signal) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.command != nil:
		in.command.Signal(s)
	case in.first == 0:
		in.first = s
		in.cancel()
	default:
		if in.cleanup != nil {
			in.cleanup()
		}
		os.Exit(128 + int(s))
	}
}

// startCommand starts COMMAND, unless a signal has arrived, and forwards later signals to it.
func (in *interrupts) startCommand(argv, env []string) (*command.Command, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.first != 0 {
		return nil, context.Canceled
	}
	c, err := command.Start(argv, env, stderr)
	in.command = c
	return c, err
}

// commandEnded stops forwarding signals.
func (in *interrupts) commandEnded() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.command = nil
}

// setCleanup sets the function that a second signal calls before it ends the process.
func (in *interrupts) setCleanup(f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.cleanup = f
}

// exitCode returns 128 plus the signal that ended the sandbox, or 0.
func (in *interrupts) exitCode() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.first == 0 {
		return 0
	}
	return 128 + int(in.first)
}
