// Command fleet shows how a program of your own, a controller for instance, has many
// releases at work at once: one connection, one set of watches for all of them, and an
// operation for each release.
//
//	go run ./kube/example/fleet -sandbox
//	go run ./kube/example/fleet -releases 200 -namespaces 10 -do install,upgrade,uninstall
//
// It installs a chart of three groups as app-0, app-1 … and tells how far it is, and in
// the end how many are ready, in what time, and with how many requests. With -json it
// prints the figures as one line of JSON for each step: kube/bench makes a model of them.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"helm.sh/helm/v4/pkg/cli"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"

	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/throwaway"
)

//go:embed chart
var embedded embed.FS

type options struct {
	releases, workers, namespaces int
	chart, prefix, do, as         string
	values                        map[string]any
	sandbox, ownWatches, json     bool
	timeout                       time.Duration
	out                           io.Writer
}

func main() {
	o := options{out: os.Stdout}
	flag.IntVar(&o.releases, "releases", 200, "how `many` releases")
	flag.IntVar(&o.workers, "workers", 0, "how `many` are at work at the same time, 0 for all")
	flag.IntVar(&o.namespaces, "namespaces", 1, "over how `many` namespaces they are spread, which are made where they are missing")
	flag.StringVar(&o.chart, "chart", "", "the `folder` of another chart, with names made of the release's")
	flag.StringVar(&o.prefix, "prefix", "fleet", "the namespaces' names begin with this `text`")
	flag.StringVar(&o.do, "do", "install", "the `steps`, of install, upgrade, uninstall")
	flag.StringVar(&o.as, "as", "", "the `user` to impersonate")
	flag.BoolVar(&o.sandbox, "sandbox", false, "use a cluster that is gone afterwards")
	flag.BoolVar(&o.ownWatches, "own-watches", false, "each release has watches of its own, for comparison")
	flag.BoolVar(&o.json, "json", false, "print figures as JSON")
	flag.DurationVar(&o.timeout, "timeout", 15*time.Minute, "what one operation may take")
	settings := flag.Int("settings", 4, "ConfigMaps of a release")
	workloads := flag.Int("workloads", 2, "Deployments of a release")
	flag.Parse()
	o.values = map[string]any{"settings": *settings, "workloads": *workloads}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	chart, err := load(o.chart)
	if err != nil {
		return err
	}
	settings := cli.New()
	settings.KubeAsUser = o.as
	if o.sandbox {
		cluster, err := throwaway.Start(ctx, throwaway.Options{})
		if err != nil {
			return err
		}
		defer cluster.Close()
		settings.KubeConfig = cluster.Kubeconfig
	}
	sent := &requests{}
	if err := counted(settings, sent); err != nil {
		return err
	}
	client, err := kube.Connect(settings, nil, nil)
	if err != nil {
		return err
	}
	f := &fleet{options: o, client: client, chart: chart, sent: sent}
	if !o.ownWatches {
		if f.watches, err = client.Watch(context.Background(), kube.WatchOptions{AllNamespaces: o.namespaces > 1}); err != nil {
			return err
		}
		defer f.watches.Close() // all operations are over then
	}
	if err := f.makeNamespaces(ctx); err != nil {
		return err
	}
	for step := range strings.SplitSeq(o.do, ",") {
		if err := f.step(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// load loads the chart in a folder, or the one that comes with the program.
func load(dir string) (*charts.Chart, error) {
	if dir != "" {
		return charts.LoadPath(dir)
	}
	dir, err := os.MkdirTemp("", "fleet-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	files, err := fs.Sub(embedded, "chart")
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(dir, files); err != nil {
		return nil, err
	}
	return charts.LoadPath(dir)
}

// counted has all requests of a connection counted.
func counted(settings *cli.EnvSettings, by *requests) error {
	flags, ok := settings.RESTClientGetter().(*genericclioptions.ConfigFlags)
	if !ok {
		return errors.New("the settings have another getter than Helm's")
	}
	helms := flags.WrapConfigFn
	flags.WrapConfigFn = func(c *rest.Config) *rest.Config {
		c.Wrap(by.count)
		return helms(c)
	}
	return nil
}
