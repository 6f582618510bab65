// Package engine decides what is deployed when. It turns a rendered chart into
// a Plan (a DAG of groups), runs it against a Cluster, and tells what happens
// as a stream of Events. It knows neither Helm nor a Kubernetes client nor a
// screen, and imports the standard library alone.
//
// Data flows one way:
//
//	resources, charts ─▶ BuildPlan ─▶ Engine ─▶ Feed ─▶ State (the one reducer)
//	                                    ▲
//	                                 Command
//
// The rule numbers in comments (R7, R14 …) are those of the specification of
// what "in order" means; README.md explains the annotations they are about.
package engine
