// Package bench compares lockstep with helm on one machine. Each round measures one right after the other, so that other
// load on the machine affects both. Some rows also measure kapp, nelm and helmfile, if they are in the PATH.
//
// It is a test binary: `make bench` runs it with -measure; without -measure it only tests its own calculations. All rows
// use one sandbox. Times and peak memory are those of the processes; requests are counted in the API server's audit
// log. The results are latest.json and latest.md in the folder -out. TestPages keeps the line of the README and the table of
// the page "benchmarks" equal to latest.json.
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

// TestMain measures if -measure is set, otherwise it runs the tests.
func TestMain(m *testing.M) {
	var o options
	measure := flag.Bool("measure", false, "measure instead of running tests")
	only := flag.String("only", "", "measure only the rows whose name matches this `expression`")
	flag.IntVar(&o.rounds, "rounds", 3, "`number` of rounds of each measurement")
	flag.StringVar(&o.lockstep, "lockstep", "bin/lockstep", "the `program` that is measured")
	flag.StringVar(&o.out, "out", "testdata/bench", "the `folder` to write the results to, \"\" for none")
	flag.StringVar(&o.compare, "compare", "", "print the figures that are slower than in this latest.json `file`")
	flag.BoolVar(&o.add, "add", false, "keep the rows in the folder -out that are not measured; the measured ones get a date and a commit")
	page := flag.String("scale", "", "measure the cost of many objects and releases instead, and write the tables to this `page`; -only selects tables")
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
