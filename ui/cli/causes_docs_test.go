package cli

import (
	"fmt"
)

// deployment returns a Deployment whose pods have annotations for the simulated kubelet.
func deployment(name, annotations, spec string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}, annotations: {%s}}
    spec: {%s}
`, name, annotations, spec)
}

// crashing returns the annotations of a container that writes a log and exits with code 3.
func crashing(more string) string {
	return `sandbox/exit-code: "3", sandbox/run-duration: 10ms, sandbox/ready-delay: 1h, sandbox/log: "connecting\nFATAL: relation \"orders\" does not exist"` + more
}

func job(name, annotations, spec, pod string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec: {%s, template: {metadata: {annotations: {%s}}, spec: {%s}}}
`, name, spec, annotations, pod)
}

const (
	oneContainer = `containers: [{name: main, image: "example/app:1"}]`
	orders       = `FATAL: relation "orders" does not exist`
)
