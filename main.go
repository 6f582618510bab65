// Command lockstep deploys Helm charts in the order they declare.
package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // credential plugins of kubeconfigs

	"lockstep/ui/cli"
)

func main() { os.Exit(cli.Main()) }
