// Command lockstep deploys Helm charts in the order that they ask for.
package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // the ways to log in to a cluster that kubeconfigs name

	"lockstep/ui/cli"
)

func main() { os.Exit(cli.Main()) }
