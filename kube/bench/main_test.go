// Package bench measures lockstep beside helm on one machine, in one run: every
// figure is taken from both in turn, round by round, so that what else the machine
// does falls on both. It is a test binary, like chaos: `make bench` runs it with
// -measure, and without that it has only the tests of its own arithmetic. In some rows
// kapp and nelm are measured, too, where they are on the PATH.
//
// It starts one sandbox for all rows, takes times and peak memory from the processes
// and requests from the API server's audit log, and writes latest.json and latest.md
// into the folder -out. The tables of the README and of the page benchmarks come from latest.json (see TestPages).
package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
)

type options struct {
	rounds        int
	only          *regexp.Regexp
	lockstep, out string
	compare       string
	add           bool
}

// TestMain measures where that is asked for, and else runs the tests.
func TestMain(m *testing.M) {
	var o options
	measure := flag.Bool("measure", false, "measure, and run no tests")
	only := flag.String("only", "", "measure only the rows whose name matches this `expression`")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each figure is taken")
	flag.StringVar(&o.lockstep, "lockstep", "bin/lockstep", "the `program` that is measured")
	flag.StringVar(&o.out, "out", "testdata/bench", "the `folder` that the results are written into, \"\" for none")
	flag.StringVar(&o.compare, "compare", "", "an earlier latest.json `file`: say what has become slower since")
	flag.BoolVar(&o.add, "add", false, "keep the rows of the folder -out that are not measured; those that are say when, and of which commit")
	page := flag.String("scale", "", "measure instead what many objects and many releases take, and write that into this `page`; -only chooses tables")
	flag.Parse()
	if !*measure {
		os.Exit(m.Run())
	}
	var err error
	if o.only, err = regexp.Compile(*only); err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if *page != "" {
			err = scale(ctx, o, *page)
		} else {
			err = bench(ctx, o)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func bench(ctx context.Context, o options) error {
	var earlier *results
	if o.compare != "" {
		var err error
		if earlier, err = readResults(o.compare); err != nil {
			return err
		}
	}
	b, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	defer b.close()
	var failed error
	found := results{about: b.describe()}
	for _, r := range rows {
		if !o.only.MatchString(r.name) {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring:", r.name)
		s := &session{benchmark: b, ctx: ctx, row: r.name}
		found.noteLoad()
		if err := r.measure(s); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", r.name, err))
			continue
		}
		found.Figures = append(found.Figures, s.figures...)
	}
	found.noteLoad()
	if err := b.count(); err != nil {
		return err
	}
	fmt.Print(found.text())
	if earlier != nil {
		fmt.Print(found.slowerThan(earlier))
	}
	if failed != nil || o.out == "" {
		return failed
	}
	if o.add {
		kept, err := readResults(filepath.Join(o.out, "latest.json"))
		if err != nil {
			return err
		}
		kept.add(&found)
		found = *kept
	}
	return found.write(o.out)
}
