// Package status tells whether an object in the cluster is ready, and what it
// is waiting for.
//
// Compute is a pure function from an object, a Rule and the time to a
// run.Observation. ParseRule reads the Rule from annotations (R23, R24).
// Watcher keeps observing many objects with one list and one watch for each kind
// and namespace; events cost no further requests.
package status
