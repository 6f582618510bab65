// Command fleet shows how a program such as a controller deploys many releases at the same time:
// with one connection, one set of watches, and an operation per release.
//
//	go run ./kube/example/fleet -sandbox
//	go run ./kube/example/fleet -releases 200 -namespaces 10 -do install,upgrade,uninstall
//
// It installs a chart with three groups as app-0, app-1 … and prints its progress, then the number of
// ready releases, the time and the number of requests. With -json it prints the figures of each step
// as a line of JSON, for kube/bench.
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

// options are the command-line flags.
type options struct {
	deployment
	steps       string // comma-separated
	as          string // user to impersonate
	sandbox     bool
	ownWatches  bool
	json        bool
	chartFolder string
	out         io.Writer
}

// deployment describes the releases.
type deployment struct {
	releases, workers, namespaces int
	prefix                        string // of namespaces
	values                        map[string]any
	timeout                       time.Duration // of one operation
}

func main() {
	o := options{out: os.Stdout}
	flag.IntVar(&o.releases, "releases", 200, "`number` of releases")
	flag.IntVar(&o.workers, "workers", 0, "`number` of concurrent operations, 0 for all")
	flag.IntVar(&o.namespaces, "namespaces", 1, "`number` of namespaces to spread them over; missing ones are created")
	flag.StringVar(&o.chartFolder, "chart", "", "`folder` of another chart; the names of its objects must contain the release's name")
	flag.StringVar(&o.prefix, "prefix", "fleet", "`prefix` of the namespaces")
	flag.StringVar(&o.steps, "do", "install", "comma-separated `steps`: install, upgrade, uninstall")
	flag.StringVar(&o.as, "as", "", "`user` to impersonate")
	flag.BoolVar(&o.sandbox, "sandbox", false, "use a throwaway cluster")
	flag.BoolVar(&o.ownWatches, "own-watches", false, "use separate watches for each release, for comparison")
	flag.BoolVar(&o.json, "json", false, "print figures as JSON")
	flag.DurationVar(&o.timeout, "timeout", 15*time.Minute, "timeout of one operation")
	settings := flag.Int("settings", 4, "number of ConfigMaps in a release")
	workloads := flag.Int("workloads", 2, "number of Deployments in a release")
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
	chart, err := load(o.chartFolder)
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
	if err := countRequests(settings, sent); err != nil {
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
		defer f.watches.Close() // after all operations
	}
	if err := f.createNamespaces(ctx); err != nil {
		return err
	}
	for step := range strings.SplitSeq(o.steps, ",") {
		if err := f.step(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// load loads the chart in a folder, or with "" the embedded one.
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

// countRequests counts the requests of the connections that are made with settings.
func countRequests(settings *cli.EnvSettings, sent *requests) error {
	flags, ok := settings.RESTClientGetter().(*genericclioptions.ConfigFlags)
	if !ok {
		return errors.New("the settings do not use Helm's getter")
	}
	wrap := flags.WrapConfigFn
	flags.WrapConfigFn = func(c *rest.Config) *rest.Config {
		c.Wrap(sent.count)
		return wrap(c)
	}
	return nil
}
