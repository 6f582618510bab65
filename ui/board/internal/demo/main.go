// Demo shows the screen while working on it: a recorded run, or, without one,
// an installation that a scripted cluster plays and that can be steered.
//
//	go run ./ui/board/internal/demo [-speed 2] testdata/runs/sandbox-install.ndjson
//	go run ./ui/board/internal/demo [-step] [-fail] [-break shop/db:schema]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/theme"
	"lockstep/ui/board"
	"lockstep/ui/board/internal/sample"
	"lockstep/ui/board/replay"
)

func main() {
	speed := flag.Float64("speed", 1, "how many times faster to replay; 0 shows the end at once")
	step := flag.Bool("step", false, "start paused")
	fail := flag.Bool("fail", false, "let the migration fail once")
	stop := flag.String("break", "", "set a breakpoint on this group")
	flag.Parse()
	if err := demo(*speed, *step, *fail, *stop); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(speed float64, step, fail bool, stop string) error {
	look, err := theme.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	o := board.Options{Theme: look}
	if file := flag.Arg(0); file != "" {
		return play(file, speed, o)
	}
	feed := &event.Feed{}
	opts := run.Options{Feed: feed, Paused: step, HoldOnFailure: true}
	if stop != "" {
		opts.Breakpoints = []string{stop}
	}
	script := sample.Script()
	if fail {
		script = sample.Broken(1)
	}
	e := sample.Start(opts, script)
	o.Source, o.Command, o.Inspector = feed.Reader(), e.Command, inspector{}
	return board.Run(context.Background(), o)
}

func play(file string, speed float64, o board.Options) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	events, err := event.Read(f)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return board.Replay(context.Background(), replay.NewPlayer(events, speed), o)
}

// inspector makes its answers up.
type inspector struct{}

func (inspector) Events(_ context.Context, o plan.Object) ([]string, error) {
	return []string{
		"12:04:02  Normal   Scheduled  assigned shop/" + o.Name + "-7x2kq to node-1",
		"12:04:03  Normal   Pulled     image example/migrate:1.4 already present",
		"12:04:09  Warning  BackOff    back-off restarting failed container",
	}, nil
}

func (inspector) Pods(_ context.Context, o plan.Object) ([]board.Pod, error) {
	return []board.Pod{
		{Name: o.Name + "-7x2kq", Ready: "1/1", Restarts: "0", Created: time.Now().Add(-time.Minute), Node: "node-1", Phase: "running"},
		{Name: o.Name + "-9f1zz", Ready: "0/1", Restarts: "4", Created: time.Now().Add(-time.Hour), Node: "node-2", Phase: "running", Why: "container main ends with code 1 (5 tries)"},
	}, nil
}

func (inspector) Logs(ctx context.Context, o plan.Object, follow func(board.LogLine)) error {
	for i := 1; ; i++ {
		from := board.LogSource{Pod: fmt.Sprintf("%s-%d", o.Name, i%3), Container: "main", Try: 1 + i/50}
		follow(board.LogLine{Source: from, Time: time.Now(), Text: fmt.Sprintf("\x1b[32mINFO\x1b[0m applying migration %04d", i)})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(150 * time.Millisecond):
		}
	}
}

func (inspector) Change(_ context.Context, it board.Item) (board.Change, error) {
	switch it.Object.Kind {
	case "Deployment", "StatefulSet":
		return board.Change{Action: "change", Fields: []board.Field{{In: "spec.template.spec.containers[main]", Lines: []string{"-image: example/app:1.0", "+image: example/app:2.0"}}}}, nil
	case "Service":
		return board.Change{Action: "unchanged"}, nil
	}
	return board.Change{Action: "create"}, nil
}

func (i inspector) Sent(ctx context.Context, it board.Item) (string, error) {
	return i.Live(ctx, it.Object)
}

func (inspector) Live(_ context.Context, o plan.Object) (string, error) {
	return fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata:\n  name: %s\n  namespace: %s\ndata:\n  password: aHVudGVyMg==\n", o.Kind, o.Name, o.Namespace), nil
}
