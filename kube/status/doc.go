// Package status tells how far an object of the cluster has come.
//
// Compute is a pure function: an object, a Rule and the time give an
// engine.Observation. ParseRule reads the Rule from annotations (R23, R24).
// Watcher keeps observing many objects with one list and one watch per kind
// and namespace; no event costs a request.
package status
