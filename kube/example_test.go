package kube_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"

	"lockstep/engine/event"
	"lockstep/kube"
)

// Install a chart in order with Helm's SDK.
func ExampleNewOrdered() {
	ctx := context.Background()
	settings := cli.New()
	cfg := action.NewConfiguration()
	if err := cfg.Init(settings.RESTClientGetter(), settings.Namespace(), ""); err != nil {
		log.Fatal(err)
	}
	done, err := kube.NewOrdered(ctx, cfg, kube.OrderedOptions{
		ReadinessTimeout: 2 * time.Minute,
		Events: func(e event.Event) {
			if e.Kind == event.KindGroup {
				fmt.Println(e.Group, e.Status)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer done()

	chart, err := loader.Load("./shop")
	if err != nil {
		log.Fatal(err)
	}
	install := action.NewInstall(cfg)
	install.ReleaseName, install.Namespace = "shop", settings.Namespace()
	install.WaitStrategy, install.Timeout = kube.WaitOrdered, 5*time.Minute
	if _, err := install.RunWithContext(ctx, chart, nil); err != nil {
		log.Fatal(err)
	}
}
