// Package sandbox implements the command that runs a throwaway cluster.
package sandbox

import (
	"github.com/spf13/cobra"

	"lockstep/kube/throwaway"
)

const sandboxLong = `Run a real Kubernetes control plane with simulated nodes on this machine, until you interrupt it or COMMAND exits.
COMMAND finds the cluster through KUBECONFIG, and its exit code is returned. With --data-dir the cluster is kept;
otherwise it is deleted at the end. This needs the program lockstep-sandbox, which make builds in a clone.

Only containers of lockstep's own image really run; all others are simulated. Annotations in a pod template decide how
its pods behave:

  sandbox/start-delay: 2s      also ready-delay, run-duration, stop-duration
  sandbox/exit-code: "1"       exit code of a container that ends
  sandbox/fail-times: "2"      with exit-code: fail this many times, then succeed
  sandbox/unready-after: 10s   become unready after this time
  sandbox/fail: image          also config, create, run, pending, attach, oom,
                               never-ready, liveness, startup, evicted
  sandbox/log: TEXT            text that the container logs

  --kubeconfig FILE   write the kubeconfig to FILE
  --audit-log FILE    append the API server's audit log to FILE as JSON lines
  --data-dir DIR      keep the cluster in DIR and reuse it at the next start
  --nodes N           number of nodes (default 2)`

// New returns the command, which passes all arguments to lockstep-sandbox.
func New() *cobra.Command {
	return &cobra.Command{
		Use: "sandbox [flags] [-- COMMAND ARG…]", GroupID: "more", Short: "run a throwaway cluster", Long: sandboxLong,
		Example: `lockstep sandbox -- lockstep install shop ./shop
lockstep sandbox --kubeconfig kc   # then: kubectl --kubeconfig kc get pods`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
				return cmd.Help()
			}
			path, argv, err := throwaway.Command(args)
			if err != nil {
				return err
			}
			return replaceProcess(path, argv)
		},
	}
}
