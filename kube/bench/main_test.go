// Package bench compares lockstep with helm on one machine, in one run. Each round
// measures both, one right after the other, so that other load on the machine affects
// both. It is a test binary, like chaos: `make bench` runs it with -measure; without
// -measure it only runs the tests of its own calculations. Some rows also measure kapp
// and nelm, if they are in the PATH.
//
// It starts one sandbox for all rows, gets times and peak memory from the processes
// and requests from the API server's audit log, and writes latest.json and latest.md
// to the folder -out. TestPages makes the tables of the README and of the page
// "benchmarks" from latest.json.
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

// TestMain measures with -measure, and otherwise runs the tests.
func TestMain(m *testing.M) {
	var o options
	measure := flag.Bool("measure", false, "measure, and run no tests")
	only := flag.String("only", "", "measure only the rows whose name matches this `expression`")
	flag.IntVar(&o.rounds, "rounds", 3, "how often to take each measurement")
	flag.StringVar(&o.lockstep, "lockstep", "bin/lockstep", "the `program` that is measured")
	flag.StringVar(&o.out, "out", "testdata/bench", "the `folder` to write the results to, \"\" for none")
	flag.StringVar(&o.compare, "compare", "", "an earlier latest.json `file`: print what is slower since then")
	flag.BoolVar(&o.add, "add", false, "keep the rows of the folder -out that are not measured; the measured rows get a date and a commit")
	page := flag.String("scale", "", "measure instead the cost of many objects and many releases, and write it to this `page`; -only selects tables")
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
	if err := b.readAuditLog(); err != nil {
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
