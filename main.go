// Command lockstep deploys Helm charts in the order that they ask for.
package main

import (
	"os"

	"lockstep/ui/cli"
)

func main() { os.Exit(cli.Main()) }
