package deploy

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/kube"
	"lockstep/kube/readiness"
)

// readinessFlags are the flags with which an operator says when objects are ready (R22b).
type readinessFlags struct {
	expressions, files, notAwaited []string
	timeouts                       readinessTimeouts
}

func (r *readinessFlags) add(f *pflag.FlagSet, limit *time.Duration) {
	*limit = kube.DefaultReadiness
	r.timeouts.limit = limit
	f.Var(&r.timeouts, "readiness-timeout", "time for each object except hooks to become ready, at most --timeout (default: 1m, or --timeout if that is given); KIND/NAME=DURATION for one object (repeatable)")
	f.StringArrayVar(&r.expressions, "readiness", nil, "override the readiness check of a kind or an object: KIND.GROUP[/NAME]='SUCCESS; FAILURE' (repeatable; see lockstep help readiness)")
	f.StringArrayVar(&r.files, "readiness-file", nil, "a file of readiness expressions, timeouts and objects not to wait for (repeatable)")
	f.StringArrayVar(&r.notAwaited, "no-wait-for", nil, "do not wait for an object, and do not fail because of it: KIND/NAME or a label selector (repeatable)")
}

// overrides parses the flags. A flag comes after the files, so it counts.
func (r *readinessFlags) overrides() (all []kube.Readiness, err error) {
	for _, name := range r.files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("--readiness-file: %w", err)
		}
		more, err := readiness.ParseFile(name, data)
		if err != nil {
			return nil, fmt.Errorf("--readiness-file: %w", err)
		}
		all = append(all, more...)
	}
	files := all
	all = nil
	for _, value := range r.expressions {
		o, err := readiness.ParseFlag(value)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	for _, value := range r.notAwaited {
		o, err := readiness.ParseNoWait(value)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	all = readiness.Join(files, append(all, r.timeouts.objects...))
	_, err = readiness.New(all)
	return all, err
}

// readinessTimeouts is the value of --readiness-timeout: a duration for all objects, or for some of them.
type readinessTimeouts struct {
	limit   *time.Duration
	set     bool // limit was given
	objects []kube.Readiness
	values  []string // as given, for some objects
}

func (r *readinessTimeouts) Set(value string) error {
	o, forSome, err := readiness.ParseTimeout(value)
	switch {
	case err != nil:
		return err
	case forSome:
		r.objects, r.values = append(r.objects, o), append(r.values, value)
		return nil
	}
	d, err := time.ParseDuration(value)
	if err == nil {
		*r.limit, r.set = d, true
	}
	return err
}

func (r *readinessTimeouts) String() string {
	if r.limit == nil {
		return ""
	}
	return r.limit.String()
}

func (r *readinessTimeouts) Type() string { return "duration" }

func (r *readinessTimeouts) GetSlice() []string {
	if r.set {
		return append([]string{r.String()}, r.values...)
	}
	return r.values
}

func (r *readinessTimeouts) Append(value string) error { return r.Set(value) }

func (r *readinessTimeouts) Replace(values []string) error {
	r.set, r.objects, r.values = false, nil, nil
	for _, v := range values {
		if err := r.Set(v); err != nil {
			return err
		}
	}
	return nil
}

// readinessInCluster is the file of the overrides of a run in the cluster.
const readinessInCluster = "readiness.yaml"

// packReadiness adds the overrides to the files of a run in the cluster.
func (p *packedRun) packReadiness(overrides []kube.Readiness) error {
	if len(overrides) == 0 {
		return nil
	}
	data, err := readiness.FileOf(overrides)
	if err != nil {
		return err
	}
	p.files[readinessInCluster] = data
	p.args = append(slices.Clip(p.args), "--readiness-file="+readinessInCluster)
	return nil
}

// givenReadinessTimeout returns the values of --readiness-timeout for some objects, and whether the command line has one for all.
func givenReadinessTimeout(cmd *cobra.Command) (objects []string, forAll bool) {
	f := cmd.Flag("readiness-timeout")
	if f == nil {
		return nil, false
	}
	if r, ok := f.Value.(*readinessTimeouts); ok {
		return r.values, r.set
	}
	return nil, f.Changed
}
